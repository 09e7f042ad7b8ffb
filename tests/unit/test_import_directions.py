"""Modules that Airflow and the command line load must load without Spark.

import-linter reads the import statements (`make check`); these tests really load the modules.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "spark_apps" / "tidemill"
AIRFLOW_SIDE = ROOT / "dags" / "tidemill_airflow"

# The only packages that may import pyspark.
SPARK_SIDE = {"payload", "sources", "sinks", "engine"}

# Modules of the engine that need neither Spark nor Airflow: all others.
LIGHT_MODULES = [
    ".".join(path.relative_to(ENGINE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(ENGINE.rglob("*.py"))
    if not SPARK_SIDE.intersection(path.relative_to(ENGINE).parts)
]

# A name that is None in sys.modules cannot be imported, as if it were not installed.
LOAD_WITHOUT = """
import importlib, sys
absent, *modules = sys.argv[1:]
sys.modules.update(dict.fromkeys(absent.split(",")))
for module in modules:
    importlib.import_module(module)
"""


def failure_of_loading(modules: list[str], *, without: str) -> list[str]:
    """Return the error that a new Python ends with, or nothing."""
    command = [sys.executable, "-c", LOAD_WITHOUT, without, *modules]
    loaded = subprocess.run(command, capture_output=True, text=True, check=False)
    return loaded.stderr.splitlines()[-1:]


def third_party_imports() -> Iterator[tuple[str, str]]:
    """Yield file and imported top-level name, of every import statement of the packages."""
    for path in [*sorted(ENGINE.rglob("*.py")), *sorted(AIRFLOW_SIDE.rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            top = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)
            yield from (
                (str(path.relative_to(ROOT)), name) for name in top - {"tidemill", "tidemill_airflow"}
            )


def declared_distributions() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = ("spark", "models", "airflow", "testing")
    declared = [*project["dependencies"], *(package for name in named for package in extras[name])]
    return {one_spelling(re.split(r"[\[<>=]", requirement)[0]) for requirement in declared}


def one_spelling(distribution: str) -> str:
    """Registries take `delta_spark` and `delta-spark` for the same."""
    return distribution.lower().replace("_", "-")


def test_spec_ledger_checkpoint_control_and_command_line_load_without_spark_and_airflow() -> None:
    assert failure_of_loading(LIGHT_MODULES, without="pyspark,delta,airflow,kubernetes,mlflow") == []


def test_a_driver_of_a_pipeline_without_models_needs_no_mlflow() -> None:
    assert failure_of_loading(["tidemill.engine.driver"], without="mlflow") == []


def test_reading_conf_loads_nothing_heavy() -> None:
    spec = [module for module in LIGHT_MODULES if module.startswith("tidemill.spec")]
    heavy = "pyspark,airflow,kubernetes,deltalake,obstore,pyarrow,pandas,confluent_kafka,mlflow"
    assert failure_of_loading(spec, without=heavy) == []


def test_a_process_becomes_a_driver_without_the_models_of_the_conf_files() -> None:
    """It is made for each start, and the driver loads them anyway."""
    module = "tidemill.control.local.become_driver"
    assert failure_of_loading([module], without="tidemill.spec.project,tidemill.spec.pipeline") == []


def test_the_packages_import_only_what_pyproject_declares() -> None:
    distributions = packages_distributions()
    declared = declared_distributions()
    undeclared = {
        f"{file}: {name}"
        for file, name in third_party_imports()
        if not declared.intersection(map(one_spelling, distributions.get(name, [])))
    }
    assert undeclared == set()
