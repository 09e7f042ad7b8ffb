"""A part of an operation without Spark: does what the file `behaviour/part` in its project folder says.

    answer      writes its arguments as its answer (the default), or what the file `behaviour/part.json` holds
    refuse      ends with a refusal
    die         ends without a result
    wait        waits for the file `behaviour/part.go`, then as `answer`

Each one adds a line to `behaviour/part.runs`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.support.eventually import eventually
from tidemill.control.driver_command import DriverRun, driver_command
from tidemill.engine.part_result import PartResult, document_of, write_part_result
from tidemill.errors import GateRefusedError
from tidemill.spec.project import Environment, load_environment
from tidemill.spec.project_folder import find_project
from tidemill.storage.store import Store

REFUSAL = GateRefusedError(
    "TIDE-TEST-002",
    "As the test wants.",
    facts={"table": "silver/orders"},
    fix="ask the test",
    runbook="rewind",
)


def fake_part_command(environment: Environment, run: DriverRun) -> list[str]:
    """Return the real command line, but with this module for parts and the fake driver for drivers."""
    program, flag, _, *arguments = driver_command(environment, run)
    module = "fake_part" if run.is_part else "fake_driver"
    return [program, flag, f"tests.support.{module}", *arguments]


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--project", "--env", "--pipeline", "--run-id"):
        parser.add_argument(name, required=True)
    arguments, further = parser.parse_known_args()
    environment = load_environment(find_project(arguments.project), arguments.env)
    folder = Path(arguments.project) / "behaviour"
    with (folder / "part.runs").open("a") as runs:
        runs.write(f"{arguments.run_id}\n")
    behaviour = (folder / "part").read_text() if (folder / "part").exists() else "answer"
    if behaviour == "die":
        sys.stderr.write("no Java here\n")
        return 1
    if behaviour == "wait":
        eventually((folder / "part.go").exists, "the test lets it go on", 60)
    prepared = folder / "part.json"
    answer = json.loads(prepared.read_text()) if prepared.exists() else further
    told = {"error": document_of(REFUSAL)} if behaviour == "refuse" else {"answer": answer}
    result = PartResult.model_validate({"run_id": arguments.run_id, **told})
    layout = environment.layout
    write_part_result(Store(layout.root), layout, arguments.pipeline, result)
    return REFUSAL.exit_code if behaviour == "refuse" else 0


if __name__ == "__main__":
    sys.exit(main())
