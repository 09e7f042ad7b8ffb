"""This repository's project with changed pipelines, in separate images that differ only in the last layer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tidemill import __version__

REPOSITORY = Path(__file__).resolve().parents[2]

# Folders of the repository that belong to the project.
FOLDERS = ("conf", "spark_apps/transforms", "dags")

# Seconds to build both images and to hand them to the cluster: a tar of a GB each is written and unpacked.
BUILD_TIMEOUT_SECONDS = 600


def changed_project(folder: Path, changes: Mapping[str, Mapping[str, Any]]) -> Path:
    """Return a copy of the project in which some keys of some pipelines' files are others."""
    for name in FOLDERS:
        shutil.copytree(REPOSITORY / name, folder / name)
    for pipeline, keys in changes.items():
        file = folder / "conf" / "pipelines" / f"{pipeline}.yaml"
        file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **keys}))
    return folder


def images_of(project: Path, name: str) -> str:
    """Build both images with a project, and load them as IMAGE_LOAD says; their tag."""
    tag = f"{__version__}-{name}"
    program = [sys.executable, str(REPOSITORY / "docker" / "build_images.py")]
    done = subprocess.run(
        [*program, "spark", "airflow", f"--tag={tag}", f"--project={project}"],
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return tag
