"""Whether a new version of a pipeline can go on from where the old one stands; asked while that one runs.

Spark plans the new version where drivers run (`engine.planned_version`) and says what state it would keep;
the checkpoint says what state there is. Everything here is decided without Spark.

| question | file |
|---|---|
| what would the new version keep, what is in the checkpoint, and what do operators mean | `version.py` |
| where do the two differ, so that Spark fails or goes wrong | `compare.py` |
| what does that come to, together with what the gate says | `verdict.py` |
"""
