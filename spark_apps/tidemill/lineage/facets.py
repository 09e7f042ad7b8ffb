"""The facets of Tidemill's events: its two custom ones, and those of tables.

OpenLineage requires a prefix for custom facets, and a schema that is named by version. The schemas are the
files in `schemas/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attr
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    RunFacet,
    dataset_version_dataset,
    ownership_dataset,
    schema_dataset,
    set_producer,
    storage_dataset,
    symlinks_dataset,
)

from tidemill import __version__
from tidemill.lineage.datasets import Dataset
from tidemill.spec.lineage import DEFAULT_NAMESPACE
from tidemill.spec.project import Pipeline

# Names and not addresses, because Tidemill has no web site that could serve them. A changed schema gets a new
# number here.
PRODUCER = f"urn:tidemill:{__version__}"
FACETS = "urn:tidemill:facets:1-0-0"

set_producer(PRODUCER)


@attr.define(kw_only=True)
class TidemillBatchRunFacet(RunFacet):
    """The batch and code of an event; `schemas/TidemillBatchRunFacet.json`."""

    mode: str
    code: dict[str, Any]
    generation: str | None = None
    epoch: int | None = None
    batchId: int | None = None  # noqa: N815  # OpenLineage's naming style
    plan: str | None = None
    queryId: str | None = None  # noqa: N815
    watermark: str | None = None
    quarantinedRows: int | None = None  # noqa: N815
    lateRows: int | None = None  # noqa: N815

    @staticmethod
    def _get_schema() -> str:
        return f"{FACETS}:TidemillBatchRunFacet"


@attr.define(kw_only=True)
class TidemillOffsetsInputDatasetFacet(InputDatasetFacet):
    """The range that a batch read; `schemas/TidemillOffsetsInputDatasetFacet.json`."""

    stream: str
    start: Any = None
    end: Any = None
    cluster: str | None = None
    topicId: str | None = None  # noqa: N815

    @staticmethod
    def _get_schema() -> str:
        return f"{FACETS}:TidemillOffsetsInputDatasetFacet"


def owned_facets(pipeline: Pipeline, dataset: Dataset, version: str | None = None) -> dict[str, DatasetFacet]:
    """Return the facets of a pipeline's output, whose owner also owns the data."""
    owner = ownership_dataset.Owner(pipeline.spec.owner, "MAINTAINER")
    facets: dict[str, DatasetFacet] = {"ownership": ownership_dataset.OwnershipDatasetFacet([owner])}
    return facets | table_facets(pipeline, dataset, version)


def table_facets(pipeline: Pipeline, dataset: Dataset, version: str | None = None) -> dict[str, DatasetFacet]:
    """Return the facets of a table and its name in the catalog, and the version of any dataset."""
    facets: dict[str, DatasetFacet] = {}
    if dataset.is_table:
        facets["storage"] = storage_dataset.StorageDatasetFacet("delta", "parquet")
    if dataset.catalogued is not None:
        namespace = namespace_of(pipeline)
        identifier = symlinks_dataset.Identifier(namespace, dataset.catalogued, "TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet([identifier])
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(version)
    return facets


def namespace_of(pipeline: Pipeline) -> str:
    """Return the namespace of the jobs, and of the names in the catalog."""
    lineage = pipeline.environment.spec.lineage
    return DEFAULT_NAMESPACE if lineage is None else lineage.namespace


def schema_facet(columns: tuple[Mapping[str, Any], ...]) -> schema_dataset.SchemaDatasetFacet:
    """Return the columns of a table."""
    return schema_dataset.SchemaDatasetFacet([_field(column) for column in columns])


def _field(column: Mapping[str, Any]) -> schema_dataset.SchemaDatasetFacetFields:
    kind = column["type"]
    inner = kind["fields"] if isinstance(kind, Mapping) and kind["type"] == "struct" else ()
    comment = (column.get("metadata") or {}).get("comment")
    return schema_dataset.SchemaDatasetFacetFields(
        column["name"], _type_text(kind), comment, fields=[_field(part) for part in inner] or None
    )


def _type_text(kind: Any) -> str:
    """Return a type in Spark's notation; Delta's log has names and trees."""
    if not isinstance(kind, Mapping):
        return str(kind)
    if kind["type"] == "array":
        return f"array<{_type_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_type_text(kind['keyType'])},{_type_text(kind['valueType'])}>"
    parts = ",".join(f"{part['name']}:{_type_text(part['type'])}" for part in kind["fields"])
    return f"struct<{parts}>"
