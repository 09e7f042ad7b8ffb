"""Print the time that Airflow's DAG processor takes for the DAGs of 1,000 pipelines. Limit: 6 s of CPU time
in total.

Half of the pipelines are streams, the other half runs by schedule. Each file is parsed twice in a process
that has imported Airflow, like the DAG processor's processes. The first time it reads 1,000 YAML files, the
second time they are cached. CPU seconds are measured in addition to wall time, so other work on the machine
does not matter.

Run: make bench-dags
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.fake_driver import ROOT
from tests.support.small_project import INCREMENTAL, STREAM, small_project
from tidemill.spec.project_folder import PROJECT_VARIABLE

PIPELINES = 1_000
LIMIT_SECONDS = 6.0

PARSE = """
import json, sys, time
from pathlib import Path
from airflow.dag_processing.dagbag import DagBag
told = {}
for file in sorted(Path(sys.argv[1]).glob("*.py")):
    for turn in range(2):
        begun, spent = time.perf_counter(), time.process_time()
        bag = DagBag(str(file))
        taken = time.process_time() - spent, time.perf_counter() - begun
        told.setdefault(file.name, [len(bag.dags)]).append(taken)
        assert not bag.import_errors, bag.import_errors
print(json.dumps(told))
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, small_project(Path(folder) / "project") as project:
        for number in range(PIPELINES):
            project.declare(f"pipeline_{number:04}", STREAM if number % 2 else INCREMENTAL)
        variables = {
            **project.variables,
            "AIRFLOW_HOME": str(Path(folder) / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            PROJECT_VARIABLE: str(project.folder),
        }
        command = [sys.executable, "-c", PARSE, str(ROOT / "dags")]
        environment = {**os.environ, **variables}
        said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    told = json.loads(said.splitlines()[-1])
    for name, (dags, first, again) in told.items():
        print(f"{name}: {dags} DAGs, {first[0]:.2f} s, again {again[0]:.2f} s")
    spent, passed = (sum(first[place] for _, first, _ in told.values()) for place in (0, 1))
    print(f"all: {spent:.2f} s, {passed:.2f} s by the clock; limit {LIMIT_SECONDS:g} s")
    return int(spent > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
