"""Payloads: the bytes of a record become typed columns, or a reason why they cannot."""
