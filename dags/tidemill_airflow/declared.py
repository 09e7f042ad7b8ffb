"""Declared pipelines for DAG files: the valid ones, and the errors of the others.

Airflow shows either the DAGs of a file or its import error, never both. Files that define DAGs therefore use
only the valid pipelines, and `conf_errors.py`, which defines none, shows the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from airflow.sdk import get_parsing_context

from tidemill.errors import SpecError
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import load_environment
from tidemill.spec.project_folder import Project
from tidemill_airflow.place import Place
from tidemill_airflow.workers import refuse_remote_workers


def declared(
    place: Place, mode: str, dag_id_of: Callable[[str], str] | None = None, *, saying: str = ""
) -> Iterator[tuple[str, PipelineSpec]]:
    """Yield name and declaration of each pipeline of a mode, without broken files.

    Args:
        place: Project and environment.
        mode: `run.mode`.
        dag_id_of: Maps a pipeline's name to its DAG id. A process that runs a task parses the DAG file again
            for one DAG, and then only that pipeline is read.
        saying: Text that every relevant file contains. Searching a thousand files for it takes a hundredth of
            the time that parsing them takes.
    """
    asked = get_parsing_context().dag_id
    folder = Project(Path(place.project)).pipelines

    def is_wanted(name: str) -> bool:
        if asked and dag_id_of:
            return place.dag_id(dag_id_of(name)) == asked
        return not saying or _says(folder / f"{name}.yaml", saying)

    for name, spec, _ in _read_all(place, is_wanted):
        if spec is not None and spec.run.mode == mode:
            yield name, spec


def choices(place: Place, fits: Callable[[PipelineSpec], bool]) -> list[str]:
    """Return the names of the pipelines that a form offers.

    A process that runs a task gets all names, because the form was checked when the run was triggered.
    """
    if get_parsing_context().dag_id:
        return names(place)
    return [name for name, spec, _ in _read_all(place) if spec is not None and fits(spec)]


def is_stream(spec: PipelineSpec) -> bool:
    """Return True if the pipeline runs as a stream."""
    return spec.run.mode == "stream"


def is_backfillable(spec: PipelineSpec) -> bool:
    """Return True if the pipeline reads a single stream whose past can be read again, and writes a table."""
    return bool(spec.delta_sinks) and not spec.has_named_streams and spec.source.facts.has_past


def names(place: Place) -> list[str]:
    """Return the names of all pipelines, including broken ones, without reading their files."""
    return list(Project(Path(place.project)).pipeline_names())


def is_protected(place: Place) -> bool:
    """Return True if operations need approval; also if the environment cannot be read."""
    try:
        return load_environment(Project(Path(place.project)), place.environment).spec.protected
    except SpecError:
        return True


def raise_conf_errors(place: Place) -> None:
    """Raise if the environment or a pipeline file is broken.

    Raises:
        SpecError: The error itself, or TIDE-SPEC-030 with one paragraph for each of several errors.
        UsageError: TIDE-CTRL-062, if drivers are local but tasks run on other machines.
    """
    refuse_remote_workers(load_environment(Project(Path(place.project)), place.environment))
    errors = [error for _, _, error in _read_all(place) if error is not None]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise SpecError(
            "TIDE-SPEC-030",
            f"{len(errors)} files in conf/pipelines are broken; all other pipelines are loaded.",
            facts={"files": "\n\n" + "\n\n".join(str(error) for error in errors)},
            fix="correct each; `tidemill validate` shows the same",
        )


def _says(file: Path, word: str) -> bool:
    """Return True if the file may contain the word, or if it cannot be read.

    An unreadable file is then parsed, which reports the error. YAML can write a word differently only with a
    backslash.
    """
    try:
        text = file.read_text(encoding="utf-8")
        return word in text or "\\" in text
    except (OSError, ValueError):
        return True


def _read_all(
    place: Place, is_wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, PipelineSpec | None, SpecError | None]]:
    project = Project(Path(place.project))
    for name in filter(is_wanted, project.pipeline_names()):
        try:
            yield name, project.load_pipeline(name), None
        except SpecError as error:
            yield name, None, error
