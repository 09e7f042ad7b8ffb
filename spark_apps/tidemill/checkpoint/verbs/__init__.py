"""What changes checkpoints: one file per verb, and what several of them share."""
