"""What the platform tells of itself to those that watch it: `tidemill metrics`."""
