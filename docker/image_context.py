"""Build contexts of the images: one folder for each, with exactly the files that its Dockerfile copies.

The folders are created below .cache/images from the files named here and nothing else. So neither the
repository's history nor stray files of a checkout get into an image.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from set_up import DOCKER, JARS, JVM_JAR, ROOT, VENV, SetupError, Step, pinned_jars, run, sha256

from tidemill.dev.broker_config import SINGLE_NODE_PROPERTIES

CONTEXTS = ROOT / ".cache" / "images"
WHEELS = CONTEXTS / "wheel"

# What a project's folders may bring along; a key, a dump or an editor's file stays on the machine.
PROJECT_FILES = frozenset({".avsc", ".desc", ".json", ".md", ".proto", ".py", ".sql", ".yaml", ".yml"})

# Seconds since 1970 of every entry of the wheel: 1980, the first that zip can hold. Equal sources give an
# equal wheel, and the builder finds its layer again.
WHEEL_TIME = "315532800"


@dataclass(frozen=True)
class Image:
    """One image: its name below the repository, its folder below docker/, and what fills its context."""

    name: str
    folder: str
    fill: Callable[[Path, Path], None]

    def make_context(self, folder: Path, project: Path) -> None:
        """Recreate the folder with the Dockerfile, its programs in bin/, and the files that `fill` adds."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "bin").mkdir(parents=True)
        for path in sorted((DOCKER / self.folder).iterdir()):
            if path.is_file():
                place = folder if path.name == "Dockerfile" else folder / "bin"
                shutil.copy2(path, place)
        self.fill(folder, project)


def fill_spark(context: Path, project: Path) -> None:
    """Pins, jars with their hashes, the engine as a wheel, the project."""
    _copy_pins(context, "spark")
    copy_jars(context / "jars", ("spark", "s3a"))
    _copy_engine(context)
    copy_project(project, context / "project")


def fill_airflow(context: Path, project: Path) -> None:
    """Pins, the engine as a wheel, the project."""
    _copy_pins(context, "airflow")
    _copy_engine(context)
    copy_project(project, context / "project")


def fill_kafka(context: Path, _project: Path) -> None:
    """The broker's jars with their hashes, and the settings that demo and tests run with."""
    copy_jars(context / "jars", ("broker",))
    settings = SINGLE_NODE_PROPERTIES.items()
    (context / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings))


def fill_nothing(_context: Path, _project: Path) -> None:
    """All comes from the base image's package source."""


IMAGES = (
    Image("spark", "spark", fill_spark),
    Image("airflow", "airflow", fill_airflow),
    Image("evaluation-kafka", "evaluation/kafka", fill_kafka),
    Image("evaluation-postgres", "evaluation/postgres", fill_nothing),
)


def copy_jars(target: Path, purposes: Iterable[str]) -> None:
    """Copy the jars of these purposes, and SHA256SUMS for the build to compare them with."""
    wanted = tuple(f"{purpose}/" for purpose in purposes)
    hashes = {name: digest for name, digest in pinned_jars().items() if name.startswith(wanted)}
    own = JVM_JAR.relative_to(JARS).as_posix()
    if own.startswith(wanted):
        hashes[own] = sha256(JVM_JAR)  # compiled here, so no pin can name it
    for name in hashes:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(JARS / name, target / name)
    (target / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in hashes.items()))


def copy_project(project: Path, target: Path) -> None:
    """Copy conf, transforms and DAG files; a project without DAG files gets Tidemill's.

    `tidemill_airflow` is installed with the engine, so it is not copied with the DAG files.

    Raises:
        SetupError: If the folder is not a project.
    """
    if not (project / "conf" / "pipelines").is_dir():
        raise SetupError(f"{project} is no project folder: it has no conf/pipelines.")
    dags = project / "dags" if (project / "dags").is_dir() else ROOT / "dags"
    for source, place in (
        (project / "conf", "conf"),
        (project / "spark_apps" / "transforms", "spark_apps/transforms"),
        (dags, "dags"),
    ):
        if source.is_dir():  # a project may do without transforms
            shutil.copytree(source, target / place, ignore=_left_out)


def _left_out(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not _belongs(Path(folder) / name)]


def _belongs(path: Path) -> bool:
    if path.is_symlink() or path.name.startswith("."):
        return False
    if path.is_dir():
        return path.name not in ("__pycache__", "tidemill_airflow")
    return path.suffix in PROJECT_FILES


def _copy_pins(context: Path, image: str) -> None:
    shutil.copy2(DOCKER / f"requirements-{image}.txt", context / "requirements.txt")
    shutil.copy2(DOCKER / "requirements-setup.txt", context)


def _copy_engine(context: Path) -> None:
    shutil.copytree(WHEELS, context / "engine")


def wheel_step() -> Step:
    """The step that makes the wheel of Tidemill for both images, while its sources are unchanged skipped."""
    return Step(
        title="Tidemill into a wheel",
        stamp=ROOT / ".cache" / "stamps" / "wheel",
        inputs=(ROOT / "pyproject.toml", ROOT / "README.md", *_engine_files()),
        outputs=(WHEELS,),
        tools=("venv",),
        make=_make_wheel,
    )


def _engine_files() -> tuple[Path, ...]:
    folders = (ROOT / "spark_apps" / "tidemill", ROOT / "dags" / "tidemill_airflow")
    files = (path for folder in folders for path in folder.rglob("*"))
    return tuple(sorted(path for path in files if path.is_file() and path.suffix != ".pyc"))


def _make_wheel() -> None:
    # Build from a copy, because setuptools leaves folders in the source tree.
    source = CONTEXTS / "wheel-source"
    for folder in (source, WHEELS):
        shutil.rmtree(folder, ignore_errors=True)
    for path in (ROOT / "pyproject.toml", ROOT / "README.md", *_engine_files()):
        (source / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, source / path.relative_to(ROOT))
    uv = ("env", f"SOURCE_DATE_EPOCH={WHEEL_TIME}", VENV / "bin" / "uv")
    python = VENV / "bin" / "python"
    options = ("--quiet", "--wheel", "--no-build-isolation", "--python", python, "--out-dir", WHEELS)
    run(*uv, "build", *options, source)
    shutil.rmtree(source)
    (WHEELS / ".gitignore").unlink(missing_ok=True)
