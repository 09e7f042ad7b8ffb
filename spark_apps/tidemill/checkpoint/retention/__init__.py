"""How far back a pipeline can go, and what has to be kept for that."""
