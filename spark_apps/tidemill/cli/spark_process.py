"""Parts of a verb that only Spark can do, each in a process of its own: the command line has no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tidemill.errors import UnavailableError

if TYPE_CHECKING:
    from tidemill.ledger.table_restore import RestoreTable, TableRestore
    from tidemill.spec.project import Pipeline

# Characters of the process's last words that an error shows.
SHOWN_CHARACTERS = 600


def run_with_spark(pipeline: Pipeline, module: str, arguments: Sequence[str]) -> None:
    """Run `python -m tidemill.engine.<module>` for a pipeline until it ends.

    Raises:
        UnavailableError: TIDE-CKPT-077, if it fails. What it had to do may be repeated.
    """
    environment = pipeline.environment
    command = [
        *(sys.executable, "-m", f"tidemill.engine.{module}"),
        *("--project", str(environment.project.folder)),
        *("--env", str(environment.file)),
        *("--pipeline", pipeline.name),
        *arguments,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise UnavailableError(
            "TIDE-CKPT-077",
            "The part of this verb that Spark does has failed. The same command goes on with it.",
            facts={
                "pipeline": pipeline.name,
                "part": module,
                "exit_code": ended.returncode,
                "said": ended.stderr.strip()[-SHOWN_CHARACTERS:],
            },
            fix="mend what it names, and run the same command again",
            runbook="rewind",
        )


def restoring(pipeline: Pipeline) -> RestoreTable:
    """How to restore a table of a pipeline: through delta-rs, or with Spark where only Spark can."""

    def restore(wanted: TableRestore) -> None:
        from tidemill.ledger.table_restore import open_existing, restore_through_delta_rs, spark_needed

        if spark_needed(open_existing(wanted.path)):
            run_with_spark(pipeline, "table_restore", ["--restore", json.dumps(asdict(wanted))])
        else:
            restore_through_delta_rs(wanted)

    return restore
