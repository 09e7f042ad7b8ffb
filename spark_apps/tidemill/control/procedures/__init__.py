"""The `checkpoint` verbs as complete procedures, shared by the command line and the DAGs."""
