"""Read files of a files source: which of them are no longer needed, and where they were moved."""
