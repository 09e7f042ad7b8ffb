"""Drivers as pods: a StatefulSet of one for a stream, a Job of one pod for a run that ends by itself.

| file | what it knows |
|---|---|
| `api.py`, `client.py` | what is asked of the API server, and how |
| `slot_record.py` | the ConfigMap of a slot: who holds it, what was decided |
| `driver_pod.py`, `slot_objects.py` | the objects, as pure functions |
| `observed.py`, `pod_facts.py`, `stuck.py` | what objects and pods tell of a driver, as pure functions |
| `workload.py` | how a StatefulSet or a Job is made and ended, whoever races |
| `kubernetes_runtime.py` | start, drain, kill: the thin part that acts |
"""
