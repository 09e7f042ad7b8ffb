"""The verbs of `checkpoint` as whole procedures: one way for the command line and for the DAGs."""
