"""Maintenance of tables while their streams run: decides what to rewrite and delete, and does it."""
