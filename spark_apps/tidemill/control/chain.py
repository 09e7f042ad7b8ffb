"""Pipelines that feed each other, one after the other: which ones, in which order, what a failure stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.table_graph import build_graph

# `left_alone`: a stream, which runs by itself. `not_run`: because of what happened to another one.
Outcome = Literal["finished", "failed", "stopped", "not_run", "left_alone"]


@dataclass(frozen=True)
class Link:
    """What became of one pipeline of a chain, and what there is to say of it."""

    pipeline: str
    outcome: Outcome
    told: str

    @property
    def is_well(self) -> bool:
        """Whether those that read its tables may run."""
        return self.outcome in ("finished", "left_alone")


@dataclass(frozen=True)
class Chain:
    """Pipelines to run, each after all that write what it reads.

    Args:
        order: Their names.
        upstream: By name, all that feed it, directly or through others.
        streams: Those of them that are streams.
    """

    order: tuple[str, ...]
    upstream: Mapping[str, frozenset[str]]
    streams: frozenset[str]

    def links(self, run: Callable[[str], Link], look: Callable[[str], str]) -> Iterator[Link]:
        """Run it, and tell of each pipeline when it is done.

        What does not depend on a pipeline that failed goes on. After one that was stopped nothing is started.

        Args:
            run: Runs one pipeline to its end.
            look: Says of a stream whether it runs.
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
    """The chain that ends with a pipeline; without one, all pipelines.

    Args:
        pipelines: All of the project, since any may write what another one reads.
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
