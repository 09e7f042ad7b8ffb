"""What a consumer reads of producers' transactions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Isolation = Annotated[
    Literal["read_committed", "read_uncommitted"],
    Field(
        description="Whether records of a producer's transaction count only once it is committed; "
        "read_uncommitted also reads those of transactions that are open or were aborted."
    ),
]
