"""The search for records on which a transform fails, by running it on parts of their range without writing.

Only failures of the transform count. The records are read and decoded once, and each part is a selection of
the decoded rows. The order of the rows is that of their offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemill.engine.failing_records import (
    NotOfOneRecordError,
    Stretch,
    failing_places,
    part_of,
    stretches_of,
)
from tidemill.engine.flow import flow_of
from tidemill.engine.record_failure import RecordFailure, record_failure
from tidemill.errors import DataError
from tidemill.ledger.entry import Joined, Positions
from tidemill.names import LINEAGE_COLUMNS, SOURCE_NAME
from tidemill.payload.left_out import Place
from tidemill.spec.project import Pipeline


@dataclass(frozen=True)
class Poison:
    """A record on which the transform fails, even alone."""

    place: Place
    failure: RecordFailure


class PoisonSearch:
    """Runs the transform on parts of a range.

    Args:
        pipeline: The pipeline.
        joined: Contents of joined tables and folders; the newest ones by default.
    """

    def __init__(self, pipeline: Pipeline, joined: Joined | None = None) -> None:
        self._pipeline = pipeline
        self._joined = joined
        self._failures: dict[Place, RecordFailure] = {}

    def find(self, decoded: DataFrame, start: Positions, end: Positions, known: int) -> list[Poison]:
        """Return the records of a range on which the transform fails; none if no single record is the cause.

        1. Decode the whole range. A failure here is not a failure of the transform.
        2. Run the transform on no rows. A failure here is not caused by a record.
        3. Bisect failing parts until one record is left, and run it again alone.

        Args:
            decoded: The transform's input for the range, without records that are already left out.
            start: First offsets.
            end: End offsets.
            known: Number of records that are already left out.

        Raises:
            DataError: TIDE-DATA-010, if there are more than the pipeline may leave out.
            Exception: A failure outside the transform, such as an unavailable source.
        """
        stretches, most = stretches_of(start, end), self._pipeline.spec.run.most_poison
        rows = decoded.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            # 1.
            rows.count()
            # 2.
            if self._fails(rows, stretches, []):
                return []
            # 3.
            count = sum(stretch.count for stretch in stretches)
            places = failing_places(
                count,
                lambda first, last: self._fails(rows, stretches, part_of(stretches, first, last)),
                max(most - known, 0) + 1,
            )
        except NotOfOneRecordError:
            return []
        finally:
            rows.unpersist()
        found = [self._poison(stretches, place) for place in places]
        if known + len(found) > most:
            raise self._too_many(found, known)
        return found

    def _fails(self, rows: DataFrame, stretches: Sequence[Stretch], part: Sequence[Stretch]) -> bool:
        chosen = rows.where(_condition(stretches, part))
        try:
            result = flow_of(self._pipeline, {SOURCE_NAME: chosen}, self._joined).frame
            result.write.format("noop").mode("overwrite").save()
        except Exception as error:
            failure = record_failure(error)
            if failure is None:
                raise
            if sum(stretch.count for stretch in part) == 1:
                self._failures[part[0].topic, part[0].partition, part[0].start] = failure
            return True
        return False

    def _poison(self, stretches: Sequence[Stretch], place: int) -> Poison:
        (one,) = part_of(stretches, place, place + 1)
        record = (one.topic, one.partition, one.start)
        return Poison(record, self._failures[record])

    def _too_many(self, found: Sequence[Poison], known: int) -> DataError:
        named = (
            f"{topic}-{partition}-{offset} ({poison.failure.error})"
            for poison in found
            for topic, partition, offset in [poison.place]
        )
        return DataError(
            "TIDE-DATA-010",
            "The transform fails at more records than the pipeline may leave out. None of these was left "
            "out, and nothing was written.",
            facts={
                "pipeline": self._pipeline.name,
                "records": ", ".join(named),
                "left_out_before": known,
                "most": self._pipeline.spec.run.most_poison,
            },
            fix="correct the transform; only if the records are wrong, raise `max_poison_records`",
            runbook="restart-budget-spent",
        )


def _condition(stretches: Sequence[Stretch], part: Sequence[Stretch]) -> Column:
    """Return the condition for rows in a part of the stretches.

    The offsets are in a map, which Spark passes to the compiled code as a value. So the code is the same for
    each part and is compiled once. It also prevents Spark from seeing that a part is empty, and skipping the
    transform.
    """
    topic, partition, offset = (F.col(name) for name in LINEAGE_COLUMNS)
    wanted = {(one.topic, one.partition): (one.start, one.stop) for one in part}
    bounds = {
        f"{one.topic} {one.partition}": wanted.get((one.topic, one.partition), (0, 0)) for one in stretches
    }
    pairs = ((F.lit(name), F.array(_long(start), _long(stop))) for name, (start, stop) in bounds.items())
    bound = F.create_map(*chain.from_iterable(pairs))[F.concat(topic, F.lit(" "), partition.cast("string"))]
    return (offset >= bound[0]) & (offset < bound[1])


def _long(number: int) -> Column:
    return F.lit(number).cast("long")
