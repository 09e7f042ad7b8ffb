"""The verbs that change checkpoints: one file per verb, and their shared parts."""
