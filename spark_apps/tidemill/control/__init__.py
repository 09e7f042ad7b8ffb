"""Desired against actual state: what should run, what does run, and what to do about the difference."""
