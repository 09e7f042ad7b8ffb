"""Read the files of a Spark checkpoint: batch logs, source logs and state. `inspect` explains them."""
