"""`upgrade` of an environment: limits of how many streams move to a new version at once."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from tidemill.spec.strict import Strict

# A number of streams, or a percentage of all streams.
_WAVE = re.compile(r"([1-9][0-9]{0,4})|(100|[1-9][0-9]?)%")


def _wave(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not _WAVE.fullmatch(text):
        raise ValueError("expected a number of streams such as 1, or a share of them such as 10%")
    return text


Wave = Annotated[
    str,
    BeforeValidator(_wave, json_schema_input_type=int | str),
]


class UpgradePolicy(Strict):
    """Policy for replacing running streams by a new version with `on_change: restart`."""

    wave: Wave = Field(
        "1",
        description="Number of streams that are replaced at once, or a percentage such as `10%` (at least "
        "one stream). When a new driver has committed a batch or found its source empty, the next stream is "
        "replaced. If a new driver does neither within `progress_within`, no more streams are replaced.",
    )
    rollback: bool = Field(
        True,
        description="If true, a stream returns to the previous version if the new one fails before its first "
        "batch: if it is refused, its restarts are used up, or its driver has not started within "
        "`progress_within`.",
    )

    def size(self, streams: int) -> int:
        """Return the number of streams in a wave, out of `streams`."""
        if self.wave.endswith("%"):
            return max(1, math.floor(streams * int(self.wave[:-1]) / 100))
        return int(self.wave)
