"""What each committed batch did, kept inside the Delta commits and read without a JVM."""
