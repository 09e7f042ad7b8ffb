"""Game days: emergency procedures run on a copy of a pipeline, with the time to recover.

rule.py      the pipelines that can be copied, and the drills. Pure
copy.py      the copy: a fork with a separate storage root and separate drivers, and its removal
drills.py    each drill, run and measured
play.py      one game day, from the copy to the table of results
part.py      the same in a pod, where drivers are pods
results.py   that table
"""
