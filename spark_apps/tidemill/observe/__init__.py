"""Metrics of the platform for monitoring: `tidemill metrics`."""
