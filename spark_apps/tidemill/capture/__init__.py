"""Files of Event Hubs Capture, the archive of events that a hub no longer keeps. No JVM."""
