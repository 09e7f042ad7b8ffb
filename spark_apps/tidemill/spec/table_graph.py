"""The dependency graph of pipelines and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from tidemill.errors import SpecError
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.sources import Source


@dataclass(frozen=True)
class Links:
    """Inputs and outputs of one pipeline as `<kind> <name>`: `table silver/orders`, `topic orders`."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class TableGraph:
    """Inputs and outputs by pipeline."""

    links: Mapping[str, Links]

    def order(self) -> list[str]:
        """Return the pipelines in topological order, and by name where that leaves a choice.

        Raises:
            SpecError: TIDE-SPEC-027 if pipelines form a cycle.
        """
        sorter = TopologicalSorter({name: self.upstream(name) for name in sorted(self.links)})
        try:
            sorter.prepare()
        except CycleError as error:
            raise SpecError(
                "TIDE-SPEC-027",
                "Pipelines feed each other in a circle; each batch would cause the next.",
                facts={"circle": " -> ".join(error.args[1])},
                fix="write to another table or topic in one of them",
            ) from error
        order: list[str] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready())
            order += ready
            sorter.done(*ready)
        return order

    def upstream(self, pipeline: str) -> list[str]:
        """Return the pipelines that write the inputs of this one."""
        reads = self.links[pipeline].reads
        return sorted({writer for what in reads for writer in self._writers.get(what, ())})

    def readers(self, what: str) -> list[str]:
        """Return the pipelines that read a table or topic."""
        return sorted(name for name, links in self.links.items() if what in links.reads)

    def roots(self) -> list[str]:
        """Return the inputs that no pipeline writes."""
        return sorted({what for links in self.links.values() for what in links.reads} - set(self._writers))

    @cached_property
    def _writers(self) -> Mapping[str, Sequence[str]]:
        """Return the pipelines by output."""
        writers: dict[str, list[str]] = {}
        for name, links in self.links.items():
            for what in links.writes:
                writers.setdefault(what, []).append(name)
        return writers


def build_graph(pipelines: Mapping[str, PipelineSpec]) -> TableGraph:
    """Return the graph of pipelines that share tables and topics.

    Raises:
        SpecError: TIDE-SPEC-032 if two pipelines write a table that one of them replaces as a whole.
    """
    _check_replaced_tables(pipelines)
    return TableGraph({name: Links(_reads(spec), _writes(spec)) for name, spec in pipelines.items()})


def _reads(spec: PipelineSpec) -> tuple[str, ...]:
    joined = dict.fromkeys(f"table {table}" for table in spec.tables.values())
    read = (each for part in spec.parts.values() for each in _stream_reads(part.source))
    return tuple(dict.fromkeys((*read, *joined)))


def _stream_reads(source: Source) -> tuple[str, ...]:
    if source.kafka is not None:
        named = source.kafka.named_topics
        return tuple(f"topic {topic}" for topic in named) or (f"topics {source.kafka.pattern}",)
    if source.event_hub is not None:
        return (f"event hub {source.event_hub.namespace}/{source.event_hub.hub}",)
    if source.files is not None:
        return (f"files {source.files.path}",)
    if source.delta is not None:
        return (f"table {source.delta.table}",)
    return (source.kind,)


def _writes(spec: PipelineSpec) -> tuple[str, ...]:
    tables = [f"table {sink.table}" for sink in spec.delta_sinks]
    return (
        *tables,
        *dict.fromkeys(f"files {sink.files.path}" for sink in spec.sinks if sink.files is not None),
        *dict.fromkeys(f"topic {sink.kafka.topic}" for sink in spec.sinks if sink.kafka is not None),
    )


def _check_replaced_tables(pipelines: Mapping[str, PipelineSpec]) -> None:
    writers: dict[str, list[str]] = {}
    replaced: set[str] = set()
    for name, spec in sorted(pipelines.items()):
        for sink in spec.delta_sinks:
            writers.setdefault(sink.table, []).append(name)
            if sink.mode == "replace":
                replaced.add(sink.table)
    for table in sorted(replaced):
        if len(writers[table]) > 1:
            raise SpecError(
                "TIDE-SPEC-032",
                "A table is replaced as a whole by one pipeline and written by another: rows would vanish.",
                facts={"table": table, "pipelines": ", ".join(writers[table])},
                fix="give each a table of its own",
            )
