"""Check, while the old version runs, that a new version of a pipeline can continue from its checkpoint.

Spark plans the new version in the drivers' runtime (`engine.planned_version`) and reports the state that it
would keep. The checkpoint has the existing state. All decisions here are made without Spark.

| question | file |
|---|---|
| what would the new version keep, what is in the checkpoint, and what do operators mean | `version.py` |
| where do the two differ, so that Spark fails or silently goes wrong | `compare.py` |
| what is the verdict, together with the gate's findings | `verdict.py` |
"""
