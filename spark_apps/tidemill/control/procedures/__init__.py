"""The `checkpoint` operations as complete procedures, shared by the command line and the DAGs."""
