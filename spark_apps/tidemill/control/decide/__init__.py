"""Reconciliation: facts about a stream, the decision, and the visit that acts on it.

facts.py, stream_facts.py       the facts about a stream at one time, and how they are gathered
endings.py, remembered.py       ends of drivers; data about a pipeline that is stored where its drivers run
reconcile.py                    facts in, one decision out: restart_policy.py, hung.py, suspension.py
waves.py, turn_of_streams.py    the streams that may get a new version now; planning_room.py: limit of Spark
plans
rollback.py, version_facts.py   when to go back to the previous version; kept_version.py: its files
visit.py, all_streams.py        visit of one stream; visits of all streams, side_by_side.py
progress.py, report.py          streams without progress; the report, and what is new in it
"""
