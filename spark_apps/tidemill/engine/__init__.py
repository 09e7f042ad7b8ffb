"""The driver process: session, run loop of the three modes, drain, progress."""
