"""Tables kept small and quick beside their streams: what may be rewritten and deleted, and doing it."""
