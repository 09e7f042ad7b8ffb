"""OpenLineage events: inputs and outputs of runs, sent to an external service.

`run_events` creates them from the ledger and from receipts alone, so that an event sent by a driver and one
sent afterwards (`replay`) are the same. `written` reads the ledger, `endpoint` sends. The ledger is the
source of truth: an event that was not sent is created again from it.

`run_events`, `facets` and `replay` load OpenLineage's client, which takes half a second, so import them only
where they are used.
"""
