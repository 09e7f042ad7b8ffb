"""OpenLineage events: what runs read and wrote, told to a service outside.

`run_events` makes them, of the ledger and of receipts alone, so that an event sent by a driver and one sent
afterwards (`replay`) are the same. `written` reads the ledger, `endpoint` sends. The ledger stays the truth:
an event that was not sent is made again from it.

`run_events`, `facets` and `replay` load OpenLineage's client, which takes half a second: import them where
they are used.
"""
