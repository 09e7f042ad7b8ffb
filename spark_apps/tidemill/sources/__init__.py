"""Source specs -> DataFrames, as a stream or as a bounded batch."""
