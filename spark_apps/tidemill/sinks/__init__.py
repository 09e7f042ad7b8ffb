"""Batches -> tables and topics. All Delta writes of streams go through `table_writer`."""
