"""The newest version of a stream that has made a batch, with its files, as the target of a rollback.

The files are stored where drivers run, next to their endings, and not on the storage root, because a driver
runs them as code. In a pod, transforms are part of the image, and the environment's file names the image.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath

import yaml
from pydantic import BaseModel, ConfigDict

from tidemill.errors import DataError, TidemillError
from tidemill.spec.project import Environment, Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import Project

# Maximum characters of all files, packed. Together with 100 endings they must fit into a ConfigMap of 1 MiB.
LARGEST = 300_000

# Maximum bytes of one file, unpacked.
LARGEST_FILE = 20_000_000

# Project folders with the files of a version.
_FOLDERS = ("conf/pipelines", "conf/environments", "conf/schemas", "spark_apps/transforms")


class KeptVersion(BaseModel):
    """One version.

    Args:
        digest: Its `Pipeline.version_digest`.
        kept_at: Time at which it was stored.
        place: Runtime and storage root of its drivers; a rollback must not change them.
        files: Its files by their path in the project: zlib, base64.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    digest: str
    kept_at: datetime
    place: str
    files: Mapping[str, str]


def place_of(environment: Environment) -> str:
    """Return the runtime of an environment's drivers, and its storage root."""
    settings = environment.spec.kubernetes
    where = "local" if settings is None else f"namespace {settings.namespace}"
    return f"{where}, {environment.layout.root}"


def packed(pipeline: Pipeline, now: datetime) -> KeptVersion | None:
    """Return the version of a resolved pipeline; None if its files are too large, or outside the project."""
    environment, project = pipeline.environment, pipeline.environment.project
    found = [project.pipeline_file(pipeline.name), *pipeline.named_files]
    if not all(file.is_relative_to(project.sources) for file in found):
        return None
    contents = {file.relative_to(project.sources).as_posix(): file.read_bytes() for file in found}
    contents[_environment_file(environment)] = environment.file.read_bytes()
    files = {name: base64.b64encode(zlib.compress(text)).decode() for name, text in contents.items()}
    if sum(map(len, files.values())) > LARGEST:
        return None
    return KeptVersion(digest=pipeline.version_digest, kept_at=now, place=place_of(environment), files=files)


@contextmanager
def unpacked(environment: Environment, name: str, version: KeptVersion) -> Iterator[Pipeline]:
    """Yield the pipeline of a kept version. Its files stay for local drivers; otherwise only in the block.

    The environment is the current one with the kept image, if that results in the same version, because names
    of Secrets and accounts may have changed. Otherwise it is the kept environment.

    Args:
        environment: Current environment of the pipeline.
        name: The pipeline.
        version: The kept version.

    Raises:
        DataError: TIDE-CTRL-097, if it now results in another version.
    """
    if environment.spec.runtime != "local":
        with tempfile.TemporaryDirectory() as folder:
            yield _resolved(environment, name, version, Path(folder))
        return
    place = environment.run_folder / "versions" / f"{name}.{version.digest}"
    yield _resolved(environment, name, version, place)
    # Delete old versions only now, because another driver could have been started before and read them.
    for old in place.parent.glob(f"{name}.*"):
        if old != place:
            shutil.rmtree(old, ignore_errors=True)


def _resolved(environment: Environment, name: str, version: KeptVersion, folder: Path) -> Pipeline:
    cause: object = "it ran elsewhere"
    if version.place == place_of(environment):
        try:
            files = {path: _content(path, text) for path, text in version.files.items()}
            for path, content in files.items():
                _put(folder / path, content)
            for text in _environments(environment, files):
                _put(folder / _environment_file(environment), text)
                own = load_environment(Project(environment.project.folder, folder), environment.name)
                pipeline = resolve_pipeline(own, name)
                if pipeline.version_digest == version.digest:
                    return pipeline
                cause = f"its files make the version {pipeline.version_digest}"
        except (TidemillError, ValueError, LookupError, zlib.error, yaml.YAMLError, OSError) as error:
            cause = error
    raise DataError(
        "TIDE-CTRL-097",
        "The version before cannot be started again: what was kept of it is another version by now.",
        facts={"pipeline": name, "version": version.digest, "cause": cause},
        fix="deploy the version before, or a fix, by hand",
        runbook="rollback",
    )


def _environments(environment: Environment, files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield variants of the environment's file to try."""
    kept = files[_environment_file(environment)]
    if environment.spec.kubernetes is None:
        yield environment.file.read_bytes()
    else:
        today, before = yaml.safe_load(environment.file.read_text("utf-8")), yaml.safe_load(kept)
        today["kubernetes"]["image"] = before["kubernetes"]["image"]
        yield yaml.safe_dump(today).encode()
    yield kept


def _environment_file(environment: Environment) -> str:
    return f"conf/environments/{environment.name}.yaml"


def _content(path: str, text: str) -> bytes:
    """Return a file's content, after a check that the path belongs to a version.

    Raises:
        ValueError: If it does not, or if the file is too large.
    """
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not path.startswith(tuple(f"{f}/" for f in _FOLDERS)):
        raise ValueError(f"a version has no file {path!r}")
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(base64.b64decode(text), LARGEST_FILE)
    if unpacker.unconsumed_tail:
        raise ValueError(f"{path} is larger than {LARGEST_FILE} bytes")
    return content


def _put(file: Path, content: bytes) -> None:
    """Write a file atomically, because a driver may read it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(file)
