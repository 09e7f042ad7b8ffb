"""Numbered, immutable versions of the columns of a stream's files, created with put-if-absent.

A version only adds columns to the version before. So a later version decodes the same rows as an earlier one,
with nulls in the columns that did not exist yet.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.errors import DataError
from tidemill.names import Layout
from tidemill.storage.store import Store


class SourceSchema(BaseModel):
    """One version of the columns.

    Args:
        version: Number of the version, from 1.
        columns: All columns, as JSON Schema.
        added: Paths of the columns that the version before lacks.
        run_id: Run of the driver that found them.
        batch_id: Batch whose records had them; None for the first version, which is inferred before any
            batch.
        at: Time of storing.
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
    """Return the newest version; None before the first start.

    Raises:
        DataError: TIDE-STOR-001, if the file is damaged.
    """
    folder = layout.source_schemas(pipeline, stream)
    names = store.list_names(folder)
    return _read(store, f"{folder}/{names[-1]}") if names else None


def source_schemas(store: Store, layout: Layout, pipeline: str, stream: str) -> list[SourceSchema]:
    """Return all versions, oldest first."""
    folder = layout.source_schemas(pipeline, stream)
    return [found for name in store.list_names(folder) if (found := _read(store, f"{folder}/{name}"))]


def add_source_schema(store: Store, folder: str, schema: SourceSchema) -> bool:
    """Store a version; return False if another driver has stored this number first."""
    document = schema.model_dump(mode="json")
    return store.create_json(f"{folder}/{schema.version:08d}.json", document)


def copy_source_schemas(store: Store, origin: tuple[Layout, str], fork: tuple[Layout, str]) -> None:
    """Copy the columns of an origin to its fork; inferred again, their types could differ from its tables.

    Args:
        store: Storage of both pipelines.
        origin: Layout and name of the origin.
        fork: Layout and name of the fork.
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
    """Return the version that follows `before`."""
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
