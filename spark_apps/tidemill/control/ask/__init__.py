"""Requests of users and Airflow to a stream or a bounded run, with their goals and proofs.

stream_request.py, bounded_run.py   the steps of a request
goal.py, proof.py                   the goal to wait for, and the check that it is reached
takeover.py                         a root that another control plane owned
waiting_task.py, stop_note.py       the task that waits for a bounded run, and a note that it was stopped
untold_runs.py                      bounded runs that a task has not reported yet, even after a clear
"""
