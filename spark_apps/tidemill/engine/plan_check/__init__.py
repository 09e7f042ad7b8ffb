"""Checks for operations that a stream cannot do, in Spark's analysed plan before a query is started.

`check.py` runs `spark_checker.py` (Spark's own list), then `stream_rules.py` (Tidemill's list), and adds
the line of the user's code that `call_sites.py` recorded. The texts of the rules are in
`spec/transform_rules.py`.
"""
