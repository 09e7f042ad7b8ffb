"""A new project folder, made from the templates beside this file."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from tidemill.errors import UsageError
from tidemill.spec.reference import write_generated

FIRST_PIPELINE = "hello"

# Templates have an ending of their own, so that no tool takes them for source, and no leading dots,
# which packaging would leave out.
_TEMPLATES = {
    "README.md": "README.md.tmpl",
    ".gitignore": "gitignore.tmpl",
    "conf/environments/local.yaml": "local.yaml.tmpl",
    f"conf/pipelines/{FIRST_PIPELINE}.yaml": "hello.yaml.tmpl",
    f"spark_apps/transforms/{FIRST_PIPELINE}.py": "hello.py.tmpl",
    ".data/landing/readings/first.json": "readings.json.tmpl",
}


def make_project(folder: Path) -> list[Path]:
    """Fill a folder that does not exist or is empty; returns the files.

    Raises:
        UsageError: TIDE-DEV-020, if the folder holds something or cannot be made; nothing was written.
    """
    _check_empty(folder)
    templates = resources.files("tidemill.dev") / "project_template"
    written = []
    for target, template in _TEMPLATES.items():
        file = folder / target
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((templates / template).read_text(encoding="utf-8"), encoding="utf-8")
        written.append(file)
    (folder / "conf" / "schemas").mkdir()
    return [*written, *write_generated(folder)]


def _check_empty(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "it is not empty" if any(folder.iterdir()) else ""
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it cannot be made"
    except ValueError:
        reason = "its name holds a NUL"
    if reason:
        raise UsageError(
            "TIDE-DEV-020",
            "A project cannot be made in this folder.",
            facts={"folder": ascii(str(folder)[:200])[1:-1], "reason": reason},
            fix="name a new or an empty folder",
        )
