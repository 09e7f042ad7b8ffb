"""`upgrade` of an environment: how many streams may be on their way to a new version at once."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from tidemill.spec.strict import Strict

# A number of streams, or a share of them all.
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
    """How a new version reaches running streams, with `on_change: restart`."""

    wave: Wave = Field(
        "1",
        description="Streams that are replaced at once: a number, or a share such as `10%`, at least one. "
        "The next is replaced when a new driver has committed a batch, or found its source empty, and none "
        "if one has not within `progress_within`.",
    )
    rollback: bool = Field(
        True,
        description="Whether a stream goes back to the version before if the new one has not made a batch "
        "when it is refused, when its restarts are used up, or when its driver has not come up within "
        "`progress_within`.",
    )

    def size(self, streams: int) -> int:
        """Streams of a wave, of so many."""
        if self.wave.endswith("%"):
            return max(1, math.floor(streams * int(self.wave[:-1]) / 100))
        return int(self.wave)
