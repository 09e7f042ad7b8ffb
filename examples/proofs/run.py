"""Running one example: its wrong forms are refused, and its pipelines give what plain Python gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from examples.proofs.activity import begin_stream_1p
from examples.proofs.example import Example, Result

if TYPE_CHECKING:
    from examples.proofs.stage import Stage


def prepare(stage: Stage, examples: Sequence[Example]) -> None:
    """Begin what takes long, if one of the examples needs it."""
    if any("stream_1p" in example.pipelines for example in examples):
        begin_stream_1p(stage)


def run_example(stage: Stage, example: Example) -> Sequence[Result]:
    """Return the actual and expected results of an example; empty if nothing runs."""
    wrong = {name: ("refused", error_id) for name, error_id in example.refused.items()}
    wrong |= {name: ("reported", error_id) for name, error_id in example.reported.items()}
    try:
        results = [Result(f"wrong/{name}", [stage.verdict(name)], [wrong[name]]) for name in wrong]
        return results if example.proof is None else [*results, *example.proof(stage)]
    finally:
        stage.forget_settings()
