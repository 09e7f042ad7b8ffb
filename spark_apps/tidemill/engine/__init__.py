"""The driver process: session, run loops of the three modes, drain and progress."""
