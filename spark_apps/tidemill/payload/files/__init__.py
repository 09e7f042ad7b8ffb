"""Files become rows: tasks read the byte ranges that Spark plans, and decode them as records of topics."""
