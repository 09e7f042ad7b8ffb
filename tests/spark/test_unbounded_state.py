"""State without a bound: refused, unless the pipeline accepts that it grows for ever."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.transform_corpus import findings_of
from tidemill.errors import SpecError

INNER = "def transform(orders, payments):\n    return orders.join(payments, 'id')\n"
LEFT = "def transform(orders, payments):\n    return orders.join(payments, 'id', 'left')\n"
ONCE = "def transform(orders):\n    return orders.dropDuplicates(['id'])\n"
ACCEPTED = {"unbounded_state": "accepted"}


def declare(lake: Lake, code: str, **run: Any) -> LakePipeline:
    names = ("orders", "payments") if "payments" in code else ("orders",)
    for name in names:
        (lake.root / f"landing/{name}").mkdir(parents=True, exist_ok=True)
    return lake.pipeline(
        "kept",
        sources={
            name: {
                "files": {
                    "path": f"landing/{name}",
                    "format": "json",
                    "schema": f"id long, {name}_at string",
                }
            }
            for name in names
        },
        transform=lake.transform("kept", code),
        sinks=[{"delta": {"table": "silver/kept"}}],
        run={"mode": "incremental", **run},
    )


def land(lake: Lake, name: str, *ids: int) -> None:
    rows = [{"id": number, f"{name}_at": f"{name} {number}"} for number in ids]
    lake.land_rows(f"landing/{name}/{ids[0]}.json", rows)


@pytest.mark.parametrize(
    ("code", "run", "found"),
    [
        (INNER, {}, [("TIDE-PLAN-016", False)]),
        (ONCE, {}, [("TIDE-PLAN-012", False)]),
        (INNER, ACCEPTED, [("TIDE-PLAN-046", True)]),
        (ONCE, ACCEPTED, [("TIDE-PLAN-046", True)]),
        # Without a bound it never finds out that an order has no payment.
        (LEFT, ACCEPTED, [("TIDE-PLAN-029", False), ("TIDE-PLAN-016", False)]),
    ],
    ids=["join", "deduplication", "accepted join", "accepted deduplication", "outer join"],
)
def test_what_keeps_its_state_for_ever_is_refused_or_reported(
    lake: Lake, code: str, run: dict[str, Any], found: list[tuple[str, bool]]
) -> None:
    findings = findings_of(declare(lake, code, **run))
    seen = [(finding.error.error_id, finding.rule.warns) for finding in findings]
    assert set(seen) <= set(found)
    assert found[-1] in seen


def test_an_accepted_join_finds_its_rows_whenever_they_come(lake: Lake) -> None:
    with pytest.raises(SpecError) as refused:
        declare(lake, INNER).run_incremental()
    assert refused.value.error_id == "TIDE-PLAN-016"
    pipeline = declare(lake, INNER, **ACCEPTED)
    land(lake, "orders", 1, 2)
    pipeline.run_incremental()
    land(lake, "payments", 2, 3)
    pipeline.run_incremental()
    land(lake, "orders", 3)
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("silver/kept")) == [2, 3]


def test_an_accepted_deduplication_knows_every_key(lake: Lake) -> None:
    pipeline = declare(lake, ONCE, **ACCEPTED)
    for ids in ((1, 2), (3, 1), (4, 2)):
        land(lake, "orders", *ids)
        pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("silver/kept")) == [1, 2, 3, 4]
