"""Isolation level of Kafka consumers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Isolation = Annotated[
    Literal["read_committed", "read_uncommitted"],
    Field(
        description="read_committed: read records of a producer's transaction only after its commit. "
        "read_uncommitted: also read records of open and aborted transactions."
    ),
]
