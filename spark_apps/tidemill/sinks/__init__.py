"""Write batches to tables, topics and other sinks. All Delta writes of streams go through `table_writer`."""
