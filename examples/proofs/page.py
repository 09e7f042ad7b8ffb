"""`python -m examples.proofs.page`: write the table of `examples/README.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from examples.proofs.catalogue import EXAMPLES
from examples.proofs.example import REPOSITORY, Example

PAGE = Path(__file__).parents[1] / "README.md"
BEGIN = "<!-- Made by `make generate` from examples/proofs; do not edit. -->"


def with_table(page: str) -> str:
    """The page with the table as it must be, in the place of the one after the mark."""
    return page.partition(BEGIN)[0] + "\n".join([BEGIN, "", *_table()]) + "\n"


def _table() -> Iterator[str]:
    yield "| | document | example | runs as | refused as | to know |"
    yield "|---|---|---|---|---|---|"
    for example in EXAMPLES:
        yield f"| {' | '.join(_cells(example))} |"


def _cells(example: Example) -> Iterable[str]:
    wrong = [
        *(f"{_wrong(name)}: {error_id}" for name, error_id in example.refused.items()),
        *(f"{_wrong(name)}: {error_id}, reported only" for name, error_id in example.reported.items()),
    ]
    runs = ", ".join(map(_link, example.pipelines))
    return [f"({example.number})", example.document, example.shows, runs, "; ".join(wrong), example.note]


def _link(pipeline: str) -> str:
    if pipeline.startswith(REPOSITORY):
        name = pipeline.removeprefix(REPOSITORY)
        return f"[{name}](../conf/pipelines/{name}.yaml)"
    return f"[{pipeline}](conf/pipelines/{pipeline}.yaml)"


def _wrong(name: str) -> str:
    return f"[{name}](wrong/conf/pipelines/{name}.yaml)"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
