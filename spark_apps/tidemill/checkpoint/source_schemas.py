"""Numbered versions of the columns of a stream's files: each made by put-if-absent, none ever changed.

A version only adds columns to the one before. So what an earlier version has decoded, a later one decodes to
the same rows, with nulls in the columns that no record had then.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.errors import DataError
from tidemill.names import Layout
from tidemill.storage.store import Store


class SourceSchema(BaseModel):
    """One version.

    Args:
        version: Its number, from 1.
        columns: All columns, as JSON Schema.
        added: Paths of those that the version before lacks.
        run_id: Of the driver that found them.
        batch_id: Whose records had them; None of the first version, which is inferred before any batch.
        at: When.
    """

    model_config = ConfigDict(frozen=True)

    v: int = 1
    version: int
    columns: dict[str, Any]
    added: tuple[str, ...]
    run_id: str
    batch_id: int | None = None
    at: datetime


def newest_source_schema(store: Store, layout: Layout, pipeline: str, stream: str) -> SourceSchema | None:
    """The columns as they are now; None before the first start.

    Raises:
        DataError: TIDE-STOR-001, if the file is damaged.
    """
    folder = layout.source_schemas(pipeline, stream)
    names = store.list_names(folder)
    return _read(store, f"{folder}/{names[-1]}") if names else None


def source_schemas(store: Store, layout: Layout, pipeline: str, stream: str) -> list[SourceSchema]:
    """All versions, oldest first."""
    folder = layout.source_schemas(pipeline, stream)
    return [found for name in store.list_names(folder) if (found := _read(store, f"{folder}/{name}"))]


def add_source_schema(store: Store, folder: str, schema: SourceSchema) -> bool:
    """Keep a version; False if there is one of that number, by whoever was faster."""
    document = schema.model_dump(mode="json")
    return store.create_json(f"{folder}/{schema.version:08d}.json", document)


def copy_source_schemas(store: Store, origin: tuple[Layout, str], fork: tuple[Layout, str]) -> None:
    """Give a fork the columns of its origin: inferred anew, they could be of other types than its tables.

    Args:
        store: Holds both.
        origin: Layout and name of the pipeline.
        fork: Of the fork.
    """
    (layout, name), (target, forked) = origin, fork
    for stream in store.list_names(layout.source_schemas(name, "").rstrip("/")):
        folder = layout.source_schemas(name, stream)
        for version in store.list_names(folder):
            content = store.read(f"{folder}/{version}")
            if content is not None:
                store.create(f"{target.source_schemas(forked, stream)}/{version}", content)


def next_source_schema(
    before: SourceSchema | None, columns: dict[str, Any], added: list[str], run_id: str, batch_id: int | None
) -> SourceSchema:
    """The version after another one."""
    return SourceSchema(
        version=1 if before is None else before.version + 1,
        columns=columns,
        added=tuple(added),
        run_id=run_id,
        batch_id=batch_id,
        at=datetime.now(UTC),
    )


def _read(store: Store, path: str) -> SourceSchema | None:
    document = store.read_json(path)
    try:
        return None if document is None else SourceSchema.model_validate(document)
    except ValidationError as error:
        raise DataError(
            "TIDE-STOR-001",
            "A control file is damaged.",
            facts={"file": path, "problems": error.error_count()},
            fix="restore it from a backup of the storage; without it, rows of other columns could be written",
        ) from error
