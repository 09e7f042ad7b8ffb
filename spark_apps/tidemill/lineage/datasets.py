"""Inputs and outputs of a pipeline, with OpenLineage's names of topics, files and tables.

| dataset | namespace | name |
|---|---|---|
| topic | `kafka://<first bootstrap server>` | the topic |
| files, a Delta table | `file`, `s3://<bucket>`, `abfss://<container>@<account's host>` | the path |

A table with a name in a catalog has both that name and its path. Databases are left out, because their
address is part of a secret, and so are outputs of a pipeline's own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tidemill.names import ASIDE_OUTPUTS, catalogued_name
from tidemill.spec.project import Pipeline
from tidemill.spec.sources import Source

# Stores with two schemes; OpenLineage knows these.
_SCHEMES = {"s3a": "s3", "abfs": "abfss"}


@dataclass(frozen=True)
class Dataset:
    """One topic, folder or table.

    Args:
        namespace: Its namespace.
        name: Its name there.
        catalogued: Its name in the environment's catalog; None if it is not a table, or without a catalog.
        is_table: True if it is a Delta table.
    """

    namespace: str
    name: str
    catalogued: str | None = None
    is_table: bool = False


def topic_dataset(servers: str, topic: str) -> Dataset:
    """Return a topic; the first of several servers names the cluster."""
    return Dataset(f"kafka://{servers.partition(',')[0].strip()}", topic)


def folder_dataset(location: str) -> Dataset:
    """Return a folder: an absolute local path, or scheme, host and path of a URI."""
    if "://" not in location:
        return Dataset("file", location)
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Dataset("file", parts.path)
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    return Dataset(f"{scheme}://{parts.netloc}", parts.path.strip("/"))


def table_dataset(pipeline: Pipeline, table: str) -> Dataset:
    """Return a table of the platform, by its readable name: `silver/orders`, `quarantine/<pipeline>`."""
    zone, _, name = table.partition("/")
    layout, catalog = pipeline.layout, pipeline.environment.spec.catalog
    path = layout.aside(zone, name) if zone in ASIDE_OUTPUTS else layout.table(table)
    folder = folder_dataset(path)
    catalogued = None if catalog is None else catalogued_name(catalog, table)
    return Dataset(folder.namespace, folder.name, catalogued, is_table=True)


def tables_of(pipeline: Pipeline) -> dict[str, str]:
    """Return each table that it writes, by the output of its ledger entries."""
    tables = {sink.table: sink.table for sink in pipeline.spec.delta_sinks}
    return tables | {output: f"{output}/{pipeline.name}" for output in pipeline.spec.asides}


def servers_of(pipeline: Pipeline, source: Source) -> str | None:
    """Return the brokers of a stream's topics; None if it reads none."""
    if source.event_hub is not None:
        return source.event_hub.server
    return None if source.kafka is None else pipeline.environment.kafka.bootstrap_servers


def streams_of(pipeline: Pipeline) -> list[Dataset]:
    """Return the declared inputs of its streams; topics of a pattern are known only at run time."""
    sources = (stream.source for stream in pipeline.spec.streams.values())
    return [*dict.fromkeys(dataset for source in sources for dataset in _source_datasets(pipeline, source))]


def inputs_of(pipeline: Pipeline) -> list[Dataset]:
    """Return the declared inputs, and the tables and folders that they are joined with."""
    joined = (table_dataset(pipeline, table) for table in pipeline.spec.tables.values())
    files = (joined_files_dataset(pipeline, name) for name in pipeline.spec.joined_files)
    return [*dict.fromkeys((*streams_of(pipeline), *joined, *files))]


def joined_files_dataset(pipeline: Pipeline, name: str) -> Dataset:
    """The folder of a source whose files are joined as a whole."""
    return folder_dataset(pipeline.layout.folder(pipeline.spec.joined_files[name].source.chosen.path))


def outputs_of(pipeline: Pipeline) -> list[Dataset]:
    """Return the declared outputs, without the tables of quarantined and late records."""
    return [*dict.fromkeys(_sink_datasets(pipeline))]


def _source_datasets(pipeline: Pipeline, source: Source) -> Iterator[Dataset]:
    servers = servers_of(pipeline, source)
    if source.kafka is not None and servers is not None:
        yield from (topic_dataset(servers, topic) for topic in source.kafka.named_topics)
    elif source.event_hub is not None and servers is not None:
        yield topic_dataset(servers, source.event_hub.hub)
    elif source.files is not None:
        yield folder_dataset(pipeline.layout.folder(source.files.path))
    elif source.delta is not None:
        yield table_dataset(pipeline, source.delta.table)


def _sink_datasets(pipeline: Pipeline) -> Iterator[Dataset]:
    for sink in pipeline.spec.sinks:
        if sink.delta is not None:
            yield table_dataset(pipeline, sink.delta.table)
        elif sink.kafka is not None:
            yield topic_dataset(pipeline.environment.kafka.bootstrap_servers, sink.kafka.topic)
        elif sink.files is not None:
            yield folder_dataset(pipeline.layout.folder(sink.files.path))
