"""Checks that the parts named by a pipeline file exist: size, brokers, schema files, transforms, folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import SpecError
from tidemill.names import has_pattern
from tidemill.spec.combinations import check_here
from tidemill.spec.files_after import check_after
from tidemill.spec.files_place import overlap
from tidemill.spec.near_key import near_key
from tidemill.spec.sink_code import check_sink_code
from tidemill.spec.transform_file import check_no_state, check_sink_transform, check_transform

if TYPE_CHECKING:
    from tidemill.spec.project import Pipeline


def check_named_parts(pipeline: Pipeline) -> None:
    """Check that the parts named by the file exist.

    Raises:
        SpecError: Names the file, the missing part and the places that were searched.
    """
    spec, project = pipeline.spec, pipeline.environment.project
    _check_size(pipeline)
    check_here(pipeline)
    parts = spec.parts.values()
    if any(part.source.kafka for part in parts) or any(sink.kafka for sink in spec.sinks):
        _ = pipeline.environment.kafka
    for part in parts:
        if part.payload is not None and part.payload.asks_registry:
            _ = pipeline.environment.schema_registry
        for key, name in part.payload.schema_files.items() if part.payload is not None else ():
            _check_file(pipeline, key, project.schemas / name)
    _check_transform(pipeline)
    _check_folders(pipeline)
    _check_patterns(pipeline)
    check_after(pipeline)
    for key, reference in spec.sink_transforms.items():
        file = _transform_file(pipeline, key, reference)
        if file.suffix == ".py":
            check_sink_transform(file, reference.partition(":")[2], key)
    for key, reference in spec.sink_code.items():
        check_sink_code(_transform_file(pipeline, key, reference), reference.partition(":")[2], key)


def _check_transform(pipeline: Pipeline) -> None:
    spec = pipeline.spec
    if any(model.uri is not None for model in (spec.models or {}).values()):
        _ = pipeline.environment.model_registry
    if spec.transform is None:
        return
    file = _transform_file(pipeline, "transform", spec.transform)
    if file.suffix == ".py":
        function = spec.transform.partition(":")[2]
        sources, models = list(spec.sources or ()), list(spec.models or ())
        check_transform(file, function, sources, models, spec.joined)
        if spec.leaves_out_poison:
            check_no_state(file, function, None if spec.sources is None else spec.parameter)


def _check_patterns(pipeline: Pipeline) -> None:
    """Refuse a pattern below a folder with a colon, which Hadoop (3.5) reads as the end of a scheme."""
    layout = pipeline.layout
    for path in _folders_read(pipeline):
        if (
            "://" not in layout.folder(path)
            and ":" in layout.folder(path)
            and has_pattern(layout.folder(path))
        ):
            raise SpecError(
                "TIDE-SPEC-073",
                "Spark cannot read these files: it takes a colon in a path with a pattern for a scheme.",
                facts={"pipeline": pipeline.name, "folder": ascii(layout.folder(path))[1:-1]},
                fix="rename the folder with the colon, or set `root` of the environment to an absolute path "
                "without one",
            )


def _folders_read(pipeline: Pipeline) -> list[str]:
    """Paths of the folders that streams read and that are joined."""
    parts = pipeline.spec.parts.values()
    return [part.source.files.path for part in parts if part.source.files is not None]


def _check_folders(pipeline: Pipeline) -> None:
    layout, spec = pipeline.layout, pipeline.spec
    folders = [layout.folder_parts(sink.files.path) for sink in spec.sinks if sink.files is not None]
    read = [layout.folder_parts(path) for path in _folders_read(pipeline)]
    for place, folder in enumerate(folders):
        others = [*folders[:place], *read]
        if any(overlap(folder, other) for other in others):
            raise SpecError(
                "TIDE-SPEC-048",
                "A files sink writes into a folder of another one, or where the pipeline reads.",
                facts={"pipeline": pipeline.name, "folder": "/".join(folder)},
                fix="give it a folder of its own: Spark keeps a log of each, and reads all files below",
            )
    for sink in pipeline.spec.sinks:
        if sink.files is not None and pipeline.layout.is_own(sink.files.path):
            raise SpecError(
                "TIDE-SPEC-047",
                "A files sink would write where Tidemill keeps its own.",
                facts={"pipeline": pipeline.name, "path": sink.files.path, "root": pipeline.layout.root},
                fix="name a folder of its own, such as `exports/orders`",
            )


def _transform_file(pipeline: Pipeline, key: str, reference: str) -> Path:
    file = pipeline.environment.project.transform_file(reference)
    _check_file(pipeline, key, file)
    return file


def _check_size(pipeline: Pipeline) -> None:
    sizes = pipeline.environment.spec.sizes
    if pipeline.spec.run.size not in sizes:
        raise SpecError(
            "TIDE-SPEC-014",
            "The environment has no such size.",
            facts={"pipeline": pipeline.name, "size": pipeline.spec.run.size, "known": ", ".join(sizes)},
            fix=f"use one of them, or add it to {pipeline.environment.file}",
        )


def _check_file(pipeline: Pipeline, key: str, path: Path) -> None:
    if not path.is_file():
        known = sorted(p.name for p in path.parent.glob(f"*{path.suffix}"))
        near = near_key(path.name, known)
        raise SpecError(
            "TIDE-SPEC-015",
            "A file that the pipeline names is missing.",
            facts={"pipeline": pipeline.name, "key": key, "file": path},
            fix=f"did you mean {near}?" if near else "create it, or correct the name",
        )
