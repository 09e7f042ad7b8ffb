"""Drivers as pods: a StatefulSet with one replica for a stream, a Job with one pod for a bounded run.

| file | content |
|---|---|
| `api.py`, `client.py` | calls of the API server |
| `slot_record.py` | the ConfigMap of a slot: its holder and the decision |
| `driver_pod.py`, `slot_objects.py` | the objects, as pure functions |
| `observed.py`, `pod_facts.py`, `stuck.py` | state of a driver derived from objects and pods, as pure
functions |
| `workload.py` | creation and deletion of a StatefulSet or a Job, safe in races |
| `kubernetes_runtime.py` | start, drain, kill: the thin part that acts |
"""
