"""What people and Airflow ask of a stream or a bounded run: the request, its goal, and the proof.

stream_request.py, bounded_run.py   what is done, step by step
goal.py, proof.py                   what is waited for, and whether it has come
takeover.py                         a root that another control plane owned
waiting_task.py, stop_note.py       who waits for a bounded run, and that somebody stopped it
untold_runs.py                      which bounded runs a task has still to tell of, also after it was cleared
"""
