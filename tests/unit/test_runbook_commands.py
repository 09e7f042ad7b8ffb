"""Every page of the runbooks has stories, and these run every command that the page names.

The stories are in `tests/unit/runbooks` and, where Spark has to work, in `tests/spark`. Here is only counted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark import test_runbook_repartition, test_runbook_transform
from tests.support.runbook_pages import RunbookPage, runbook_pages
from tests.support.runbook_story import Story
from tests.unit.runbooks import (
    test_backup_pages,
    test_checkpoint_pages,
    test_cluster_pages,
    test_damage_pages,
    test_doctor_pages,
    test_driver_pages,
    test_game_day_page,
    test_kubernetes_pages,
    test_monitoring_pages,
    test_owner_pages,
    test_procedure_pages,
    test_rewind_pages,
    test_rollback_page,
    test_source_pages,
    test_spark_pages,
    test_state_pages,
    test_tuning_pages,
    test_upgrade_pages,
    test_write_pages,
)

PAGES = runbook_pages()
STORIES: list[Story] = [
    *test_backup_pages.STORIES,
    *test_checkpoint_pages.STORIES,
    *test_cluster_pages.STORIES,
    *test_damage_pages.STORIES,
    *test_doctor_pages.STORIES,
    *test_driver_pages.STORIES,
    *test_game_day_page.STORIES,
    *test_kubernetes_pages.STORIES,
    *test_monitoring_pages.STORIES,
    *test_owner_pages.STORIES,
    *test_procedure_pages.STORIES,
    *test_rewind_pages.STORIES,
    *test_rollback_page.STORIES,
    *test_source_pages.STORIES,
    *test_spark_pages.STORIES,
    *test_state_pages.STORIES,
    *test_tuning_pages.STORIES,
    *test_upgrade_pages.STORIES,
    *test_write_pages.STORIES,
    *test_runbook_repartition.STORIES,
    *test_runbook_transform.STORIES,
]
ROOT = Path(__file__).parents[2]

# Programs other than `tidemill` that a page may run, and why no test does.
OTHER_PROGRAMS = {
    "cp": "copies files that only the operator has",
    "df": "the disks of this machine",
    "dmesg": "the kernel's log of this machine",
    "grep": "filters what another one prints",
    "helm": "changes the release in a cluster",
    "kubectl": "asks a cluster",
    "ps": "every process of this machine",
    "rsync": "copies files that only the operator has",
}

# Errors of a symptom that no story brings about, and the test that does: they need Spark, a broker or a race.
SHOWN_ELSEWHERE = {
    "TIDE-CTRL-014": "tests/unit/control/test_visits.py",
    "TIDE-CKPT-035": "tests/unit/cli/test_checkpoint_verbs.py",
    "TIDE-CKPT-039": "tests/unit/checkpoint/test_procedure.py",
    "TIDE-CKPT-042": "tests/unit/checkpoint/test_reset.py",
    "TIDE-CKPT-055": "tests/unit/checkpoint/test_state_growth.py",
    "TIDE-CKPT-064": "tests/unit/checkpoint/test_retention.py",
    "TIDE-CKPT-073": "tests/unit/ledger/test_table_restore.py",
    "TIDE-CKPT-096": "tests/spark/test_several_streams.py",
    "TIDE-CKPT-109": "tests/unit/checkpoint/test_procedure.py",
    "TIDE-DATA-012": "tests/unit/payload/files/test_file_corpus.py",
    "TIDE-DATA-013": "tests/unit/payload/files/test_file_corpus.py",
    "TIDE-CTRL-092": "tests/unit/control/test_game_day.py",
    "TIDE-CTRL-093": "tests/unit/control/test_game_day.py",
    "TIDE-CTRL-094": "tests/unit/control/test_game_day.py",
    "TIDE-CTRL-030": "tests/unit/control/test_spark_part.py",
    "TIDE-CTRL-031": "tests/unit/control/test_spark_part.py",
    "TIDE-CTRL-032": "tests/unit/control/kubernetes/test_parts.py",
    "TIDE-CTRL-062": "tests/airflow/test_place.py",
    "TIDE-CTRL-060": "tests/airflow/test_cluster_connection.py",
    "TIDE-CTRL-061": "tests/airflow/test_cluster_connection.py",
    "TIDE-CTRL-080": "tests/support/upgrade_corpus.py",
    "TIDE-CTRL-081": "tests/support/upgrade_corpus.py",
    "TIDE-CTRL-082": "tests/support/upgrade_corpus.py",
    "TIDE-CTRL-083": "tests/support/upgrade_corpus.py",
    "TIDE-CTRL-084": "tests/support/upgrade_corpus.py",
    "TIDE-CTRL-085": "tests/support/upgrade_corpus.py",
    "TIDE-CTRL-088": "tests/unit/checkpoint/test_upgrade_verdict.py",
    "TIDE-CTRL-097": "tests/unit/control/test_rollback.py",
    "TIDE-K8S-002": "tests/unit/control/kubernetes/test_client.py",
    "TIDE-K8S-003": "tests/unit/control/kubernetes/test_client.py",
    "TIDE-K8S-004": "tests/unit/control/kubernetes/test_client.py",
    "TIDE-K8S-007": "tests/unit/control/kubernetes/test_client.py",
    "TIDE-K8S-012": "tests/unit/control/kubernetes/test_client.py",
    "TIDE-K8S-010": "tests/unit/control/kubernetes/test_runtime_races.py",
    "TIDE-K8S-024": "tests/unit/engine/test_driver_pod.py",
    "TIDE-K8S-025": "tests/unit/engine/test_driver_pod.py",
    "TIDE-SRC-004": "tests/unit/engine/test_classify.py",
    "TIDE-SRC-008": "tests/spark/test_discovered_columns.py",
    "TIDE-CKPT-106": "tests/spark/test_spark_errors.py",
    "TIDE-CKPT-107": "tests/unit/engine/test_error_classes.py",
    "TIDE-CKPT-108": "tests/unit/engine/test_error_classes.py",
    "TIDE-JARS-001": "tests/unit/engine/test_driver.py",
    "TIDE-RUN-008": "tests/spark/test_spark_errors.py",
    "TIDE-RUN-009": "tests/unit/engine/test_error_classes.py",
    "TIDE-RUN-010": "tests/unit/engine/test_error_classes.py",
    "TIDE-SINK-025": "tests/spark/test_spark_errors.py",
    "TIDE-SINK-026": "tests/unit/engine/test_error_classes.py",
    "TIDE-SINK-027": "tests/unit/engine/test_error_classes.py",
    "TIDE-SINK-028": "tests/unit/engine/test_error_classes.py",
    "TIDE-JOIN-001": "tests/spark/test_joined_files.py",
    "TIDE-JOIN-002": "tests/spark/test_joined_files.py",
    "TIDE-JOIN-003": "tests/spark/test_joined_files.py",
    "TIDE-JOIN-004": "tests/spark/test_joined_files.py",
    "TIDE-SRC-012": "tests/spark/test_spark_errors.py",
    "TIDE-SRC-013": "tests/unit/engine/test_error_classes.py",
    "TIDE-SRC-014": "tests/spark/test_spark_errors.py",
    "TIDE-SRC-015": "tests/unit/engine/test_error_classes.py",
    "TIDE-SRC-016": "tests/unit/engine/test_error_classes.py",
    "TIDE-STOR-008": "tests/unit/engine/test_error_classes.py",
    "TIDE-TUNE-003": "tests/unit/checkpoint/test_advice.py",
    "TIDE-TUNE-004": "tests/unit/checkpoint/test_advice.py",
    "TIDE-TUNE-005": "tests/unit/checkpoint/test_advice.py",
    "TIDE-TUNE-006": "tests/unit/checkpoint/test_advice.py",
    "TIDE-TUNE-007": "tests/unit/checkpoint/test_advice.py",
    "TIDE-TUNE-008": "tests/unit/checkpoint/test_advice.py",
    "TIDE-TUNE-009": "tests/unit/checkpoint/test_advice.py",
    "TIDE-TUNE-010": "tests/unit/checkpoint/test_advice.py",
}


def stories_of(page: RunbookPage) -> list[Story]:
    return [story for story in STORIES if story.page == page.name]


def test_a_command_in_a_page_is_found_wherever_it_stands() -> None:
    text = "Do `tidemill checkpoint\n  gate PIPELINE`, `lsof x | grep y`.\n\n    tidemill status  # all\n"
    page = RunbookPage("x", text + "\n**How to know.** `tidemill start PIPELINE`")
    assert page.commands == ("tidemill checkpoint gate PIPELINE", "tidemill status")
    assert page.over == ("tidemill start PIPELINE",)
    assert page.programs == {"lsof", "grep"}


def test_the_errors_of_a_symptom_are_found_also_where_they_are_shortened() -> None:
    page = RunbookPage("x", "**Symptom.** TIDE-CKPT-040, -046 or -050 to -052.\n\nTIDE-CKPT-099")
    assert page.errors == {f"TIDE-CKPT-0{number}" for number in (40, 46, 50, 51, 52)}


def test_no_story_is_of_a_page_that_is_not_there() -> None:
    assert {story.page for story in STORIES} - PAGES.keys() == set()


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)
def test_a_page_has_a_story(page: RunbookPage) -> None:
    assert stories_of(page)


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)
def test_every_command_of_the_page_is_run_by_a_story_and_no_other(page: RunbookPage) -> None:
    ran = {command for story in stories_of(page) for command in story.commands}
    assert (sorted(set(page.commands) - ran), sorted(ran - {*page.commands, *page.over})) == ([], [])


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)
def test_every_error_of_the_symptom_is_brought_about(page: RunbookPage) -> None:
    shown = {error for story in STORIES for error in story.shown}
    assert sorted(page.errors - shown - SHOWN_ELSEWHERE.keys()) == []


@pytest.mark.parametrize(("error", "test"), SHOWN_ELSEWHERE.items())
def test_what_is_said_to_be_shown_elsewhere_is(error: str, test: str) -> None:
    assert error in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)
def test_a_page_runs_no_unknown_program(page: RunbookPage) -> None:
    assert sorted(page.programs - OTHER_PROGRAMS.keys()) == []
