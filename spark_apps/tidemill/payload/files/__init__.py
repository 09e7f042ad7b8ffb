"""Read files: tasks read the byte ranges that Spark plans, and decode them like the records of topics."""
