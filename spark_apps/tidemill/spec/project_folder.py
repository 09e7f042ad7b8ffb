"""The project folder, its files, and the search for it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemill.errors import SpecError, UsageError
from tidemill.names import PIPELINE_PATTERN, check_pipeline_name
from tidemill.spec.near_key import near_key
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.yaml_file import read_model

PROJECT_VARIABLE = "TIDEMILL_PROJECT"


@dataclass(frozen=True)
class Project:
    """A folder with `conf/` and `spark_apps/transforms/`.

    Args:
        folder: The folder; relative paths in its files are relative to it.
        own_sources: Folder with another version of `conf/` and `spark_apps/transforms/`.
    """

    folder: Path
    own_sources: Path | None = None

    @property
    def sources(self) -> Path:
        """Return the folder with `conf/` and `spark_apps/transforms/`."""
        return self.own_sources or self.folder

    @property
    def transforms(self) -> Path:
        """Return the folder with one file per transform."""
        return self.sources / "spark_apps" / "transforms"

    def transform_file(self, transform: str) -> Path:
        """Return the file of a transform, given as `file:function` or `file.sql`."""
        module, is_function, _ = transform.partition(":")
        return self.transforms / (f"{module}.py" if is_function else transform)

    @property
    def schemas(self) -> Path:
        """Return the folder with the payload schemas."""
        return self.sources / "conf" / "schemas"

    @property
    def pipelines(self) -> Path:
        """Return the folder with one file per pipeline."""
        return self.sources / "conf" / "pipelines"

    @property
    def environments(self) -> Path:
        """Return the folder with one file per environment."""
        return self.sources / "conf" / "environments"

    def pipeline_names(self) -> list[str]:
        """Return the names of all pipelines, sorted.

        Files with invalid names are left out, so that they do not affect other pipelines; see
        `misnamed_files`.
        """
        return sorted(file.stem for file in self._pipeline_files() if _is_pipeline_file(file))

    def misnamed_files(self) -> list[Path]:
        """Return the files in the pipelines folder with invalid pipeline names, for `validate`."""
        return sorted(file for file in self._pipeline_files() if not _is_pipeline_file(file))

    def _pipeline_files(self) -> list[Path]:
        # A leading dot is an editor's lock or swap file.
        files = (file for file in self.pipelines.iterdir() if not file.name.startswith("."))
        return [file for file in files if file.suffix.lower() in (".yaml", ".yml")]

    def pipeline_file(self, name: str) -> Path:
        """Return the file that declares a pipeline.

        Raises:
            SpecError: TIDE-SPEC-010 for an impossible name, TIDE-SPEC-011 for an unknown pipeline.
        """
        path = self.pipelines / f"{check_pipeline_name(name)}.yaml"
        if not path.is_file():
            known = self.pipeline_names()
            near = near_key(name, known)
            raise SpecError(
                "TIDE-SPEC-011",
                "There is no such pipeline.",
                facts={"pipeline": name, "file": path, "known": ", ".join(known) or "none"},
                fix=f"did you mean {near}?"
                if near
                else "create the file, or name another project with --project",
            )
        return path

    def load_pipeline(self, name: str) -> PipelineSpec:
        """Read the file of a pipeline."""
        return read_model(self.pipeline_file(name), PipelineSpec)


def find_project(
    folder: str | None = None, variables: Mapping[str, str] = os.environ, own_sources: str | None = None
) -> Project:
    """Find the project folder by name, by TIDEMILL_PROJECT, or upwards from the working directory.

    Args:
        folder: Path of the folder.
        variables: Environment variables.
        own_sources: See `Project.own_sources`.

    Raises:
        UsageError: TIDE-USE-001, with the places that were searched.
    """
    named = folder or variables.get(PROJECT_VARIABLE)
    candidates = [Path(named)] if named else [Path.cwd(), *Path.cwd().parents]
    for candidate in candidates:
        if os.path.isdir(candidate / "conf" / "pipelines"):  # noqa: PTH112  # False for an impossible path
            return Project(candidate.resolve(), None if own_sources is None else Path(own_sources))
    raise UsageError(
        "TIDE-USE-001",
        "No project folder was found.",
        facts={"looked_in": candidates[0] if named else f"{candidates[0]} and all folders above it"},
        fix="name a folder that holds conf/pipelines/ by --project or "
        f"{PROJECT_VARIABLE}, or make one: tidemill init DIR",
    )


def _is_pipeline_file(file: Path) -> bool:
    return file.suffix == ".yaml" and re.fullmatch(PIPELINE_PATTERN, file.stem) is not None and file.is_file()
