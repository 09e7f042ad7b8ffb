"""Send records to the quarantine before they are decoded, because the transform fails for them.

Another module decides which records these are. Here they are identified by their position, the same way in
every mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.names import LINEAGE_COLUMNS, TRANSFORM_FAILED
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.rejections import Rejections

# Maximum length of the error in the quarantine, in characters; the driver's log and the state have more.
REASON_CHARACTERS = 200

# Topic, partition, offset.
Place = tuple[str, int, int]


def reason_of(error: str, message: str) -> str:
    """Return the reason in the quarantine: `transform_failed:<error>: <message>`, in one line."""
    return f"{TRANSFORM_FAILED}:{error}: {message}".replace("\n", " ")[:REASON_CHARACTERS].rstrip(": ")


@dataclass(frozen=True)
class LeftOut:
    """The reasons of the records, by position."""

    reasons: Mapping[Place, str] = field(default_factory=dict)

    def stage(self, batches: Iterator[pa.RecordBatch], quarantine: Quarantine) -> Iterator[pa.RecordBatch]:
        """Yield the records of the topic without those, in a task.

        They go to the quarantine even if the payload says to stop at records that do not fit, because these
        do fit.
        """
        rejections = Rejections(quarantine)
        for batch in batches:
            found = self._found(batch)
            if not found:
                yield batch
                continue
            rejections.add_kafka(batch, pa.array(found, pa.int64()), list(found.values()))
            yield batch.filter(pa.array([place not in found for place in range(batch.num_rows)]))
        rejections.hand_in()

    def _found(self, batch: pa.RecordBatch) -> dict[int, str]:
        """Return the reasons by position in the batch."""
        known = pa.array(sorted({offset for _, _, offset in self.reasons}), pa.int64())
        candidates = pc.indices_nonzero(pc.is_in(batch["kafka_offset"], value_set=known)).to_pylist()
        found = {}
        for number in candidates:
            topic, partition, offset = (batch[name][number].as_py() for name in LINEAGE_COLUMNS)
            if (reason := self.reasons.get((topic, partition, offset))) is not None:
                found[number] = reason
        return found
