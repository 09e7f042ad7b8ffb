"""Decode the bytes of records to typed columns, or reject them with a reason."""
