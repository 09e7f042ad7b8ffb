"""Files of Event Hubs Capture: the archive of what a hub no longer keeps. No JVM."""
