"""The command line of a driver. It imports no Spark, so fake drivers in tests can parse it as well."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed arguments; end the process with exit code 2 if they are invalid."""
    parser = argparse.ArgumentParser(prog="tidemill.engine.driver", description="One run of one pipeline.")
    parser.add_argument("--project", help="folder that holds conf/ and spark_apps/transforms/")
    parser.add_argument("--env", help="name or file of the environment")
    parser.add_argument("--sources", help="folder that holds both of a version that was kept")
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--mode", required=True, choices=["stream", "incremental", "backfill"])
    parser.add_argument("--run-id", default=f"manual-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    parser.add_argument("--plan", help="digest of the plan that a backfill carries out")
    parser.add_argument("--http-port", type=int, help="serve probes, status and metrics; a pod always does")
    parser.add_argument("--attended", action="store_true", help="end at once if a source does not exist")
    arguments = parser.parse_args(argv)
    if (arguments.mode == "backfill") != (arguments.plan is not None):
        parser.error("--plan goes with --mode backfill")
    return arguments
