"""Control plane: compare desired and actual state of pipelines, and act on the difference."""
