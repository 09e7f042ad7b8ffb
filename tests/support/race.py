"""Let processes do the same thing at the same moment, repeatedly."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import TypeVar

T = TypeVar("T")

# Longest wait for the other process, in seconds: the first loads pyarrow and deltalake on a busy machine.
START_SECONDS = 120

# Forks of a process that has loaded what they need and used none of it: once at work, delta-rs does not
# survive a fork.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "pytest",
        "tidemill.checkpoint.procedure.carry_out",
        "tidemill.engine.run_context",
        "tidemill.sinks.table_log",
        "tidemill.storage.parquet_part",
    ]
)


def race(
    act: Callable[[int, str], T], rounds: int, names: tuple[str, ...] = ("one", "other")
) -> dict[str, list[T]]:
    """Call `act(round, name)` in all processes at once in each round, and return the results by name.

    Args:
        act: A module's function, or a `partial` of one; it is sent to the processes.
        rounds: Number of rounds.
        names: Names of the processes.
    """
    barrier = CONTEXT.Barrier(len(names))
    contenders = {}
    for name in names:
        receiver, sender = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_contend, args=(act, name, rounds, barrier, sender), daemon=True)
        process.start()
        sender.close()
        contenders[name] = (process, receiver)
    results = {}
    for name, (process, receiver) in contenders.items():
        try:
            results[name] = receiver.recv()
        except EOFError:
            raise AssertionError(f"{name} ended before its last round; its error is above") from None
        process.join()
    return results


def _contend(
    act: Callable[[int, str], T],
    name: str,
    rounds: int,
    barrier: Barrier,
    sender: Connection[list[T], object],
) -> None:
    results = []
    for number in range(rounds):
        barrier.wait(START_SECONDS)
        results.append(act(number, name))
    sender.send(results)
    sender.close()
