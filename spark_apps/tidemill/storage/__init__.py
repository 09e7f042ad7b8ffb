"""Object store access through obstore: local folders, Azure and S3 behind one small interface."""
