"""The operations that change checkpoints: one file per operation, and their shared parts."""
