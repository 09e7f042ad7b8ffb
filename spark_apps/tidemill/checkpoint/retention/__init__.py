"""The rewind window of a pipeline, and the retention that it needs."""
