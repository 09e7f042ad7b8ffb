"""The record of each committed batch, stored in the Delta commits and read without a JVM."""
