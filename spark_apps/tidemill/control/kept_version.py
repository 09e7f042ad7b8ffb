"""The newest version of a stream that made progress, with its files, so that the stream can go back to it.

They are kept where drivers run, beside how those ended, and not on the storage root: what is there becomes
code that a driver runs. In a pod, transforms are the image's own; the environment's file names the image.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tidemill.errors import DataError, TidemillError
from tidemill.spec.project import Environment, Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import Project

# Most characters of all files, packed: beside 100 endings they must fit into a ConfigMap of 1 MiB.
LARGEST = 300_000


class KeptVersion(BaseModel):
    """One version.

    Args:
        digest: Its `Pipeline.version_digest`.
        kept_at: When.
        environment: Name of its environment.
        files: Its files by their path in the project: zlib, base64.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    digest: str
    kept_at: datetime
    environment: str
    files: Mapping[str, str]


def packed(pipeline: Pipeline, now: datetime) -> KeptVersion | None:
    """The version of a resolved pipeline; None if its files are too many to be kept, or not the project's."""
    environment, project = pipeline.environment, pipeline.environment.project
    found = [project.pipeline_file(pipeline.name), *pipeline.named_files]
    if not all(file.is_relative_to(project.sources) for file in found):
        return None
    contents = {str(file.relative_to(project.sources)): file.read_bytes() for file in found}
    contents[f"conf/environments/{environment.name}.yaml"] = environment.file.read_bytes()
    files = {name: base64.b64encode(zlib.compress(text)).decode() for name, text in contents.items()}
    if sum(map(len, files.values())) > LARGEST:
        return None
    return KeptVersion(digest=pipeline.version_digest, kept_at=now, environment=environment.name, files=files)


@contextmanager
def unpacked(environment: Environment, name: str, version: KeptVersion) -> Iterator[Pipeline]:
    """The pipeline of a kept version. Its files stay where local drivers read them, else only in the block.

    Args:
        environment: Of the pipeline now; all but the version's own files is this one's.
        name: The pipeline.
        version: What was kept of it.

    Raises:
        DataError: TIDE-CTRL-097, if it makes another version by now.
    """
    if environment.spec.runtime != "local":
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), version)
            yield _resolved(environment, name, version, Path(folder))
        return
    versions = environment.run_folder / "versions"
    versions.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = versions / f"{name}.{version.digest}"
    unfinished = place.with_suffix(".unfinished")
    # A driver reads its files when it starts, and none runs now.
    for old in versions.glob(f"{name}.*"):
        shutil.rmtree(old)
    _write(unfinished, version)
    unfinished.rename(place)
    yield _resolved(environment, name, version, place)


def _write(folder: Path, version: KeptVersion) -> None:
    for path, content in version.files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(zlib.decompress(base64.b64decode(content)))


def _resolved(environment: Environment, name: str, version: KeptVersion, folder: Path) -> Pipeline:
    try:
        project = Project(environment.project.folder, folder)
        pipeline = resolve_pipeline(load_environment(project, version.environment), name)
        found = pipeline.version_digest
        cause: object = f"its files make the version {found}"
    except TidemillError as error:
        found, cause = "", error
    if found != version.digest:
        raise DataError(
            "TIDE-CTRL-097",
            "The version before cannot be started again: what was kept of it is another version by now.",
            facts={"pipeline": name, "version": version.digest, "cause": cause},
            fix="deploy the version before, or a fix, by hand",
            runbook="rollback",
        )
    return pipeline
