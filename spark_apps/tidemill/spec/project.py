"""One environment of a project, and pipelines resolved in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from tidemill.errors import SpecError
from tidemill.names import ENVIRONMENT_PATTERN, Layout
from tidemill.spec.environment import DriverSize, EnvironmentSpec, KafkaConnection
from tidemill.spec.location import root_fault, root_of_clients
from tidemill.spec.models import ResolvedModel
from tidemill.spec.named_parts import check_named_parts
from tidemill.spec.near_key import near_key
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project_folder import Project
from tidemill.spec.registry import Registry
from tidemill.spec.yaml_file import read_model

# Default folder of secrets in a pod.
SECRETS_FOLDER = "/run/secrets/tidemill"

ENVIRONMENT_VARIABLE = "TIDEMILL_ENV"


@dataclass(frozen=True)
class Environment:
    """One environment of a project, with its paths made absolute.

    Args:
        name: Name of the environment.
        file: File that declares it.
        spec: Its declaration.
        project: The project that it belongs to.
        own_layout: Layout of a pipeline's copy elsewhere in the same storage; None for declared pipelines.
        run_root: Parent of the local runtimes' folders, if it is not in the project.
    """

    name: str
    file: Path
    spec: EnvironmentSpec
    project: Project
    own_layout: Layout | None = None
    run_root: Path | None = None

    @cached_property
    def layout(self) -> Layout:
        """Return the paths below the storage root."""
        if self.own_layout is not None:
            return self.own_layout
        root = root_of_clients(self.spec.root)
        absolute = root if "://" in root else str((self.project.folder / root).resolve())
        return Layout(absolute.rstrip("/"))

    @property
    def secrets_folder(self) -> Path | None:
        """Return the folder with one file per secret; a relative path is relative to the project."""
        if self.spec.secrets.folder is not None:
            return self.project.folder / self.spec.secrets.folder
        return Path(SECRETS_FOLDER) if self.spec.runtime == "kubernetes" else None

    @property
    def run_folder(self) -> Path:
        """Return the folder on this machine with locks, process records and logs of the local runtime."""
        return (self.run_root or self.project.folder / ".tidemill") / self.name

    @property
    def kafka(self) -> KafkaConnection:
        """Return the connection to the brokers.

        Raises:
            SpecError: TIDE-SPEC-013, if the environment names none.
        """
        if self.spec.kafka is None:
            raise SpecError(
                "TIDE-SPEC-013",
                "The environment names no Kafka brokers.",
                facts={"file": self.file},
                fix='add `kafka: {bootstrap_servers: "host:port"}`',
            )
        return self.spec.kafka

    @property
    def schema_registry(self) -> Registry:
        """Return the schema registry.

        Raises:
            SpecError: TIDE-SPEC-068, if the environment names none.
        """
        if self.spec.schema_registry is None:
            raise SpecError(
                "TIDE-SPEC-068",
                "The environment names no schema registry.",
                facts={"file": self.file},
                fix="add `schema_registry: {url: …}`, or name each writer's schema file in `ids`",
            )
        return self.spec.schema_registry

    @property
    def model_registry(self) -> Registry:
        """Return the model registry.

        Raises:
            SpecError: TIDE-MODEL-006, if the environment names none.
        """
        if self.spec.model_registry is None:
            raise SpecError(
                "TIDE-MODEL-006",
                "The environment names no model registry.",
                facts={"file": self.file},
                fix="add `model_registry: {url: …}`, or name the model by `path` and `digest`",
            )
        return self.spec.model_registry


# Keys about placement, permissions and handling of changes. They do not change what a driver does.
_NOT_PART_OF_A_DEFINITION = {
    *("runtime", "kubernetes", "sizes", "on_change", "protected", "grace_period", "progress_within"),
    *("restarts", "notify", "upgrade"),
}

# Keys about reports to Airflow. They do not change what a driver does either.
_NOT_PART_OF_A_DECLARATION = {"run": {"progress_within", "deadline", "asset_every"}}

# Triggers without progress after which a slow stream counts as making none. One or two late batches may just
# be load.
PATIENT_TRIGGERS = 3


@dataclass(frozen=True)
class Pipeline:
    """A pipeline resolved in an environment, with everything that a driver needs.

    Args:
        name: Name of the pipeline.
        spec: Its declaration.
        environment: The environment in which it runs.
        models: Models of its transform by name, as the driver resolved them; empty outside drivers.
    """

    name: str
    spec: PipelineSpec
    environment: Environment
    models: Mapping[str, ResolvedModel] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """Return the paths below the storage root."""
        return self.environment.layout

    @cached_property
    def streams(self) -> dict[str, Pipeline]:
        """Return for each stream, by its name in the ledger, this pipeline with that stream only."""
        return {name: replace(self, spec=spec) for name, spec in self.spec.streams.items()}

    @cached_property
    def joined_files(self) -> dict[str, Pipeline]:
        """Return, for each source whose files are joined as a whole, this pipeline with it as the stream."""
        return {name: replace(self, spec=spec) for name, spec in self.spec.joined_files.items()}

    @property
    def parts(self) -> dict[str, Pipeline]:
        """Return the streams and the joined folders, each as this pipeline with it as the only stream."""
        return self.streams | self.joined_files

    @property
    def size(self) -> DriverSize:
        """Return the resources of the driver."""
        return self.environment.spec.sizes[self.spec.run.size]

    @property
    def progress_within(self) -> timedelta:
        """Return the maximum time that the stream may run without progress."""
        own, usual = self.spec.run.progress_within, self.environment.spec.progress_within
        return own if own is not None else max(usual, PATIENT_TRIGGERS * self.spec.run.trigger)

    @property
    def spark_ui(self) -> bool:
        """Return True if the drivers serve Spark's UI."""
        own = self.spec.run.spark_ui
        return self.environment.spec.spark_ui if own is None else own

    @cached_property
    def digest(self) -> str:
        """Return 16 hex digits of SHA-256 over the declaration, without key order and comments."""
        document = json.dumps(self.spec.model_dump(mode="json", by_alias=True), sort_keys=True)
        return hashlib.sha256(document.encode()).hexdigest()[:16]

    @cached_property
    def definition_digest(self) -> str:
        """Return 16 hex digits of SHA-256 over everything that decides what a driver does.

        These are the declaration, the files it names, its size, and the environment without pod placement and
        other sizes. Defaults are left out, so that a release that adds a key changes no digest.
        """
        given = {
            "pipeline": self.spec.model_dump(
                mode="json", by_alias=True, exclude_defaults=True, exclude=_NOT_PART_OF_A_DECLARATION
            ),
            "size": self.size.model_dump(mode="json", exclude_defaults=True),
            "environment": self.environment.spec.model_dump(
                mode="json", exclude_defaults=True, exclude=_NOT_PART_OF_A_DEFINITION
            ),
        }
        digest = hashlib.sha256(json.dumps(given, sort_keys=True).encode())
        for file in self.named_files:
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]

    @cached_property
    def version_digest(self) -> str:
        """Return the digest of the definition and, on Kubernetes, of the image.

        A stream is replaced when this digest changes.
        """
        settings = self.environment.spec.kubernetes
        if settings is None:
            return self.definition_digest
        return hashlib.sha256(f"{self.definition_digest} {settings.image}".encode()).hexdigest()[:16]

    @property
    def named_files(self) -> list[Path]:
        """Return the payload schemas and transform files, which also decide what a driver does."""
        project = self.environment.project
        payloads = [part.payload for part in self.spec.parts.values() if part.payload is not None]
        files = [project.schemas / name for payload in payloads for name in payload.schema_files.values()]
        transforms = [self.spec.transform, *self.spec.sink_transforms.values(), *self.spec.sink_code.values()]
        files += [project.transform_file(reference) for reference in transforms if reference is not None]
        return list(dict.fromkeys(files))


def load_environment(
    project: Project, name: str | None = None, variables: Mapping[str, str] = os.environ
) -> Environment:
    """Read an environment by its name in conf/environments/ or by a file's path; `local` by default.

    Raises:
        SpecError: TIDE-SPEC-012 for an unknown environment; 072 for a root that cannot be used.
    """
    wanted = name or variables.get(ENVIRONMENT_VARIABLE) or "local"
    path = Path(wanted) if wanted.endswith(".yaml") else project.environments / f"{wanted}.yaml"
    # The name is also used as a folder name and as a label.
    named_well = re.fullmatch(ENVIRONMENT_PATTERN, path.stem) is not None
    if not named_well or not os.path.isfile(path):  # noqa: PTH113  # False for an impossible path
        known = sorted(p.stem for p in project.environments.glob("*.yaml"))
        raise SpecError(
            "TIDE-SPEC-012",
            "There is no such environment.",
            facts={"environment": ascii(wanted[:80])[1:-1], "known": ", ".join(known) or "none"},
            fix=f"did you mean {near}?"
            if (near := near_key(wanted, known))
            else f"create {project.environments}/<name>.yaml; a name is {ENVIRONMENT_PATTERN}",
        )
    environment = Environment(path.stem, path.resolve(), read_model(path, EnvironmentSpec), project)
    _check_root(environment)
    return environment


def _check_root(environment: Environment) -> None:
    """Refuse a root that different clients would resolve to different places.

    The project folder's name may be the cause.
    """
    root = environment.layout.root
    if (fault := root_fault(root)) is None:
        return
    part, because = fault
    raise SpecError(
        "TIDE-SPEC-074",
        "The storage root cannot be used. Nothing was read or written.",
        facts={
            "file": environment.file,
            "root": ascii(root)[1:-1],
            "part": ascii(part)[1:-1],
            "because": because,
        },
        fix="rename that folder, or set `root` in the file to an absolute path without such a part",
    )


def resolve_pipeline(environment: Environment, name: str) -> Pipeline:
    """Read a pipeline and check that its size, brokers, schema file and transform function exist.

    Raises:
        SpecError: Names the file, the missing part and the places that were searched.
    """
    spec = environment.project.load_pipeline(name)
    pipeline = Pipeline(name, spec, environment)
    check_named_parts(pipeline)
    return pipeline


def describe(pipeline: Pipeline) -> dict[str, Any]:
    """Return the declaration with all defaults as plain data."""
    return pipeline.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
