"""What should run, what does, and what to do about it: facts of a stream, decisions, and the visit that acts.

facts.py, stream_facts.py       all that is known of a stream at one moment, and how it is gathered
endings.py, remembered.py       how drivers ended; what is remembered of a pipeline where they run
reconcile.py                    facts in, one decision out: restart_policy.py, hung.py, suspension.py
waves.py, turn_of_streams.py    which streams may get a new version now; planning_room.py: which Spark plans
rollback.py, version_facts.py   when a version is given up for the one before; kept_version.py: its files
visit.py, all_streams.py        one stream looked at and acted on; all of them, side_by_side.py
progress.py, report.py          which streams make no progress; what a person should know, and what is news
"""
