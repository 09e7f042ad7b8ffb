"""`make examples`: run all examples in order, in one Spark session with one broker, and print the results.

Ends with 1 if one differs from what plain Python makes of its input. Arguments are numbers of examples.
"""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import structlog

from examples.proofs.catalogue import EXAMPLES
from examples.proofs.example import Example, Result
from examples.proofs.run import prepare, run_example
from examples.proofs.stage import Stage
from tests import conftest as _quick_java  # noqa: F401  # Java's options for a start of seconds
from tidemill.dev.broker import running_broker
from tidemill.dev.broker_config import BrokerConfig
from tidemill.testing.session import shared_session


def main(numbers: Sequence[int]) -> int:
    """Run them; returns the exit code."""
    # Broker and drivers are separate processes, which must not outlive this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    chosen = [example for example in EXAMPLES if not numbers or example.number in numbers]
    outcomes: dict[int, Sequence[Result] | None] = {}
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_broker(BrokerConfig(Path(folder) / "broker")) as broker,
    ):
        spark = shared_session(Path(folder))
        # The refusals that are shown print their traces.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        stage = Stage(Path(folder) / "stage", spark, broker.bootstrap_servers)
        try:
            prepare(stage, chosen)
            for example in chosen:
                since = time.monotonic()
                outcomes[example.number] = _run(stage, example)
                seconds = time.monotonic() - since
                print(f"({example.number}) {_verdict(example, outcomes)}, {seconds:.1f} s", flush=True)
        finally:
            stage.close()
            spark.stop()
    _print_table(chosen, outcomes)
    failed = [example.number for example in chosen if "differs" in _verdict(example, outcomes)]
    print(f"\n{len(chosen)} examples, {len(failed)} differ, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


def _run(stage: Stage, example: Example) -> Sequence[Result] | None:
    try:
        return run_example(stage, example)
    except Exception:  # noqa: BLE001  # one example that fails must not hide the others
        traceback.print_exc()
        return None


def _verdict(example: Example, outcomes: dict[int, Sequence[Result] | None]) -> str:
    results = outcomes[example.number]
    if results is None:
        return "differs: failed"
    if not results:
        return example.note.partition(":")[0]
    differ = [result.what for result in results if not result.agrees]
    return f"differs: {', '.join(differ)}" if differ else "as expected"


def _print_table(chosen: Sequence[Example], outcomes: dict[int, Sequence[Result] | None]) -> None:
    print()
    for example in chosen:
        print(f"({example.number}) {example.document}: {example.shows}")
        for result in outcomes[example.number] or []:
            mark = "ok" if result.agrees else "DIFFERS"
            print(
                f"     {mark:<8}{result.what}: {len(result.rows)} of {len(result.expected)} expected", end=""
            )
            print(f", {_value(result)}" if len(result.expected) == 1 or not result.agrees else "")
        for line in [example.note] if example.note else []:
            print(f"     note    {line}")


def _value(result: Result) -> str:
    if result.agrees:
        return str(result.rows[0])
    return f"seen {result.seen}, expected {result.wanted}"


if __name__ == "__main__":
    sys.exit(main([int(number) for number in sys.argv[1:]]))
