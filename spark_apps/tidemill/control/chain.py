"""Chains: pipelines that feed each other, run in order; a failure stops the ones that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.table_graph import build_graph

# `left_alone`: a stream, which runs by itself. `not_run`: skipped because of another pipeline's result.
Outcome = Literal["finished", "failed", "stopped", "not_run", "left_alone"]


@dataclass(frozen=True)
class Link:
    """Result of one pipeline of a chain, with a message."""

    pipeline: str
    outcome: Outcome
    told: str

    @property
    def is_well(self) -> bool:
        """Return True if pipelines that read its tables may run."""
        return self.outcome in ("finished", "left_alone")


@dataclass(frozen=True)
class Chain:
    """Pipelines to run, each after all pipelines that write its input.

    Args:
        order: Their names.
        upstream: All direct and indirect upstream pipelines, by name.
        streams: The pipelines among them that are streams.
    """

    order: tuple[str, ...]
    upstream: Mapping[str, frozenset[str]]
    streams: frozenset[str]

    def links(self, run: Callable[[str], Link], look: Callable[[str], str]) -> Iterator[Link]:
        """Run the chain, and yield the result of each pipeline.

        Pipelines that do not depend on a failed one continue. After a stopped one, no pipeline is started.

        Args:
            run: Runs one pipeline to its end.
            look: Returns the state of a stream as text.
        """
        failed: list[str] = []
        stopped = ""
        for name in self.order:
            causes = [other for other in failed if other in self.upstream[name]]
            if name in self.streams:
                link = Link(name, "left_alone", f"a stream, which {look(name)}")
            elif causes:
                link = Link(name, "not_run", f"it depends on {', '.join(causes)}")
            elif stopped:
                link = Link(name, "not_run", f"{stopped} was stopped")
            else:
                link = run(name)
            if link.outcome == "failed":
                failed.append(name)
            if link.outcome == "stopped":
                stopped = name
            yield link


def chain_of(pipelines: Mapping[str, PipelineSpec], last: str | None = None) -> Chain:
    """Return the chain that ends with a pipeline; without one, all pipelines.

    Args:
        pipelines: All pipelines of the project, because any may write another one's input.
        last: The pipeline.

    Raises:
        SpecError: TIDE-SPEC-027, if pipelines feed each other in a circle.
    """
    graph = build_graph(pipelines)
    upstream: dict[str, frozenset[str]] = {}
    for name in graph.order():
        direct = graph.upstream(name)
        upstream[name] = frozenset(direct).union(*(upstream[other] for other in direct))
    order = [name for name in upstream if last is None or name == last or name in upstream[last]]
    streams = frozenset(name for name in order if pipelines[name].run.mode == "stream")
    return Chain(tuple(order), upstream, streams)
