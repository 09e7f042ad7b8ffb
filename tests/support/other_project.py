"""A copy of the image's project in the scheduler's pod, with some other files, for `--project`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from tests.support.platform import Platform
from tidemill.spec.pod import PROJECT_FOLDER

OTHER_PROJECT = "/tmp/project"

COPY = """
import json, pathlib, shutil, sys
source, target, files = sys.argv[1:]
shutil.rmtree(target, ignore_errors=True)
shutil.copytree(source, target)
for name, text in json.loads(files).items():
    pathlib.Path(target, name).write_text(text)
"""


def declared(platform: Platform, pipeline: str) -> dict[str, Any]:
    """Return the declaration of a pipeline in the image."""
    file = f"{PROJECT_FOLDER}/conf/pipelines/{pipeline}.yaml"
    document: dict[str, Any] = yaml.safe_load(platform.cluster(*platform.in_scheduler("cat", file)))
    return document


def with_run(declaration: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a declaration whose `run` has some other keys."""
    return {**declaration, "run": {**declaration["run"], **keys}}


def make_other_project(platform: Platform, files: Mapping[str, str]) -> tuple[str, str]:
    """Make the copy with these files, by their paths in it; the option that names it."""
    copy = ("python", "-c", COPY, PROJECT_FOLDER, OTHER_PROJECT, json.dumps(files))
    platform.cluster(*platform.in_scheduler(*copy))
    return "--project", OTHER_PROJECT


def with_declaration(platform: Platform, pipeline: str, declaration: Mapping[str, Any]) -> tuple[str, str]:
    """Make the copy with another declaration of a pipeline."""
    text = yaml.safe_dump(dict(declaration))
    return make_other_project(platform, {f"conf/pipelines/{pipeline}.yaml": text})
