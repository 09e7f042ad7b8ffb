"""All checkpoints of an environment at once; writes nothing."""
