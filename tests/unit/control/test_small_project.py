"""Behaviour files of the fake drivers, which change while the drivers run."""

from __future__ import annotations

from tests.support.small_project import SmallProject


def test_a_driver_that_reads_its_behaviour_while_it_changes_reads_the_old_or_the_new_one(
    project: SmallProject,
) -> None:
    project.behave("orders", "waits TIDE-SRC-001")
    with (project.folder / "behaviour/orders").open() as reading:
        project.behave("orders", "run")
        assert reading.read() == "waits TIDE-SRC-001"
    assert (project.folder / "behaviour/orders").read_text() == "run"
