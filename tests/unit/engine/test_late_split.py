"""The late rule of a batch; late rows that Spark drops are never lost silently."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.commits import commit_of
from tidemill.backfill.row_origin import EventWindow
from tidemill.engine.late_split import check_none_dropped, late_rule
from tidemill.errors import DataError
from tidemill.payload.late_rows import LateRule

MINUTE = timedelta(minutes=1)
TUMBLING = EventWindow(kind="tumbling", length=5 * MINUTE, slide=5 * MINUTE, offset=MINUTE)
SLIDING = EventWindow(kind="sliding", length=10 * MINUTE, slide=5 * MINUTE)


@pytest.mark.parametrize(
    ("window", "operators", "expected"),
    [
        (TUMBLING, 1, LateRule(7, window=300_000_000, offset=60_000_000)),
        # A deduplication before the window goes by the row's own time.
        (TUMBLING, 2, LateRule(7)),
        (SLIDING, 1, LateRule(7)),
        (EventWindow(kind="session"), 1, LateRule(7)),
        (None, 1, LateRule(7)),
        (None, 0, LateRule(7)),
    ],
)
def test_the_end_of_a_window_counts_only_where_it_does_for_spark(
    window: EventWindow | None, operators: int, expected: LateRule
) -> None:
    assert late_rule(7, window, operators) == expected


def test_a_batch_of_which_spark_drops_rows_all_the_same_is_refused() -> None:
    entry = commit_of(4).entry
    check_none_dropped(entry, 0)
    with pytest.raises(DataError) as refused:
        check_none_dropped(entry, 3)
    assert refused.value.error_id == "TIDE-DATA-005"
    assert refused.value.facts == {"pipeline": "orders", "batch_id": 4, "dropped": 3}
