"""Game days: what is done in an emergency, done on a copy of a pipeline, and how long it takes to recover.

rule.py      which pipelines can be copied, and which drills there are. Pure
copy.py      the copy: a fork with a storage root and drivers of its own, and its end
drills.py    each drill, done and measured
play.py      one game day, from the copy to the table of results
part.py      the same in a pod, where drivers are pods
results.py   that table
"""
