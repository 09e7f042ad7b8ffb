"""Storage access through obstore: one small interface for local folders, Azure and S3."""
