"""Services that a developer's machine needs and production has already: a Kafka broker and events to read.

The embedded broker is a real Kafka, started from the Maven jars; demo and tests use the same one.
"""
