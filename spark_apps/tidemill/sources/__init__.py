"""Read the declared sources as DataFrames, as a stream or as a bounded batch."""
