"""The records that are still good, with their positions in the input, and the reasons of dropped ones."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc


class Sieve:
    """Records that pass through checks; only the first reason of a dropped record counts.

    `records` has the remaining records in input order (a step may replace them by another form of the same
    records), and `positions` their positions in the input. Steps refer to remaining records by their offset
    in `records`.

    Args:
        records: The input.
    """

    def __init__(self, records: pa.Array) -> None:
        self.records = records
        self.positions = pa.arange(0, len(records))
        self._fallen: dict[int, str] = {}

    def drop(self, reasons: Mapping[int, str]) -> pa.BooleanArray | None:
        """Drop the records at these offsets; return the mask of those that stay, None if all do."""
        if not reasons:
            return None
        offsets = pa.array(reasons, pa.int64())
        self._fallen.update(zip(self.positions.take(offsets).to_pylist(), reasons.values(), strict=True))
        everyone = pa.arange(0, len(self.records))
        stays = pc.invert(pc.is_in(everyone, value_set=offsets))
        self.records = self.records.filter(stays)
        self.positions = self.positions.filter(stays)
        return stays

    def drop_where(self, mask: pa.BooleanArray, reason: str) -> None:
        """Drop the records for which `mask` is true."""
        self.drop(dict.fromkeys(pc.indices_nonzero(mask).to_pylist(), reason))

    def fallen(self) -> tuple[list[int], list[str]]:
        """Return the positions in the input, ascending, and the reason of each."""
        positions = sorted(self._fallen)
        return positions, [self._fallen[position] for position in positions]
