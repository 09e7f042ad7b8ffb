"""The doctor examines all checkpoints of an environment at once; it writes nothing."""
