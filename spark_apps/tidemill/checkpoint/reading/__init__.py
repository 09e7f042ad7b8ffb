"""What the files of a Spark checkpoint say: batch logs, source logs, state; `inspect` explains them."""
