"""What a transform does that a stream cannot do, found in Spark's analysed plan before a query is started.

`check.py` asks `spark_checker.py`, which is Spark's own list, then `stream_rules.py`, which is ours, and adds
the line of the user's code that `call_sites.py` saw. The rules' words stand in `spec/transform_rules.py`.
"""
