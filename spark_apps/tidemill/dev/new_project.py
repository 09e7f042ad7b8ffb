"""A new project folder, created from the templates in this folder."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from tidemill.errors import UsageError
from tidemill.spec.reference import write_generated

FIRST_PIPELINE = "hello"

# Templates have a separate file extension, so that tools do not treat them as source, and no leading dots,
# because packaging would leave them out.
_TEMPLATES = {
    "README.md": "README.md.tmpl",
    ".gitignore": "gitignore.tmpl",
    "conf/environments/local.yaml": "local.yaml.tmpl",
    f"conf/pipelines/{FIRST_PIPELINE}.yaml": "hello.yaml.tmpl",
    f"spark_apps/transforms/{FIRST_PIPELINE}.py": "hello.py.tmpl",
    ".data/landing/readings/first.json": "readings.json.tmpl",
}


def make_project(folder: Path) -> list[Path]:
    """Create a project in a folder that does not exist or is empty; return the files.

    Raises:
        UsageError: TIDE-DEV-020, if the folder is not empty or cannot be created; nothing was written.
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
