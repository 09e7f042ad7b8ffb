"""Every command that the fix of an error names is run by a test in which the error really happens.

The tests are in `tests/unit/fixes`, and stories of the runbooks run some; here is only counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.advised_commands import AdvisedCommands, advised_commands, head
from tests.support.named_commands import VALUE
from tests.unit.fixes import (
    test_backfill_fixes,
    test_control_fixes,
    test_doctor_fixes,
    test_gate_fixes,
    test_verb_fixes,
)
from tests.unit.test_runbook_commands import STORIES

ROOT = Path(__file__).parents[2]
TROUBLES = [
    *test_backfill_fixes.TROUBLES,
    *test_control_fixes.TROUBLES,
    *test_control_fixes.FOLLOWED_BELOW,
    *test_doctor_fixes.TROUBLES,
    *test_gate_fixes.TROUBLES,
    *test_verb_fixes.TROUBLES,
]

# Commands that other tests take out of the fix and run, because the error needs Spark, Airflow or a port.
ELSEWHERE = {
    ("TIDE-BACK-002", "checkpoint rewind"): "tests/spark/test_several_streams.py",
    ("TIDE-CKPT-106", "checkpoint rewind"): "tests/spark/test_spark_errors.py",
    ("TIDE-DATA-002", "plan"): "tests/spark/test_wrong_transforms.py",
    ("TIDE-JOIN-004", "checkpoint reset"): "tests/spark/test_joined_files.py",
    ("TIDE-JOIN-004", "checkpoint rewind"): "tests/spark/test_joined_files.py",
    ("TIDE-QUERY-009", "start"): "tests/unit/cli/test_memory_tables.py",
    ("TIDE-SINK-019", "checkpoint rewind"): "tests/spark/test_postgres_sink.py",
    ("TIDE-SPEC-030", "validate"): "tests/airflow/test_dag_files.py",
    ("TIDE-SRC-013", "checkpoint reset"): "tests/spark/test_spark_errors.py",
    ("TIDE-SRC-014", "checkpoint reset"): "tests/spark/test_spark_errors.py",
}

# Ids whose fix names the same command for the same state as those of others.
AS_FOR = {
    **{f"TIDE-CTRL-{number:03}": ("TIDE-CTRL-081",) for number in (80, 82, 83, 85, 87, 88)},
    "TIDE-CTRL-084": ("TIDE-CTRL-081", "TIDE-CKPT-026"),
    "TIDE-TUNE-005": ("TIDE-CKPT-026",),
    "TIDE-TUNE-006": ("TIDE-CKPT-026",),
    "TIDE-BACK-060": ("TIDE-BACK-065",),
    "TIDE-BACK-063": ("TIDE-BACK-065",),
}

# Commands in other texts, by module: next steps, help and reasons, and fixes whose id is elsewhere.
OTHERS = {
    "tidemill.backfill.downstream": {"backfill plan", "checkpoint reset"},
    "tidemill.backfill.staging": {"backfill VALUE"},
    # This command is in TIDE-CKPT-007.
    "tidemill.checkpoint.verbs.prospect": {"checkpoint repair"},
    "tidemill.cli.backfill": {"backfill apply"},
    "tidemill.cli.backfill_downstream": {"backfill downstream"},
    "tidemill.cli.backfill_publish": {"backfill publish"},
    "tidemill.cli.chain": {"start"},
    "tidemill.cli.dev": {"dev generate"},
    "tidemill.cli.graph": {"validate"},
    "tidemill.cli.init": {"ledger", "run", "validate"},
    "tidemill.cli.ledger": {"queries show"},
    "tidemill.cli.plan": {"checkpoint doctor"},
    "tidemill.cli.stream_verbs": {"resume"},
    "tidemill.control.decide.reconcile": {"start"},
    "tidemill.control.hygiene": {"checkpoint prune", "source clean"},
    "tidemill.engine.backfill": {"backfill apply"},
    # Both commands are in TIDE-SINK-002.
    "tidemill.ledger.table_restore": {"ledger"},
    "tidemill.sinks.table_log": {"ledger"},
    "tidemill.spec.capabilities_reference": {"validate"},
    "tidemill.spec.environment": {"queries show"},
    "tidemill.spec.files_source": {"source clean"},
    "tidemill.spec.lineage": {"lineage emit"},
    "tidemill.spec.run": {"checkpoint doctor", "checkpoint repartition", "plan"},
    "tidemill.spec.reference": {"dev generate", "schema check", "status", "validate"},
    # These commands are in TIDE-PLAN-001, in addition to the reference.
    "tidemill.spec.transform_rules": {"ledger", "plan", "validate", "watch"},
    "tidemill_airflow.plugin.routes": {"validate"},
}

# Serves a broker until CTRL-C; `tests/kafka/test_broker.py` is about what it serves.
NOT_RUN = {("TIDE-SRC-001", "dev broker")}


@pytest.fixture(scope="module")
def advised() -> AdvisedCommands:
    return advised_commands(ROOT / "spark_apps/tidemill", ROOT / "dags/tidemill_airflow")


def ran() -> Mapping[str, set[str]]:
    """Return the commands that tests run after an error, by its id."""
    found: dict[str, set[str]] = defaultdict(set)
    for trouble in TROUBLES:
        found[trouble.error_id].add(trouble.command)
    for story in STORIES:
        for error_id in story.shown:
            found[error_id].update(head(command) for command in story.commands)
    for error_id, command in ELSEWHERE:
        found[error_id].add(command)
    return found


def is_run(command: str, commands: set[str]) -> bool:
    """Return True if one of the commands is this one; its last word may be known at run time only."""
    group = command.removesuffix(VALUE)
    return command in commands or (group != command and any(name.startswith(group) for name in commands))


def test_every_command_of_a_fix_is_run(advised: AdvisedCommands) -> None:
    found = ran()
    left = [
        (error_id, command)
        for error_id, commands in advised.by_id.items()
        for command in sorted(commands)
        if not any(is_run(command, found[one]) for one in (error_id, *AS_FOR.get(error_id, ())))
    ]
    assert set(left) == NOT_RUN


def test_no_other_text_names_a_command_unnoticed(advised: AdvisedCommands) -> None:
    assert advised.others == OTHERS


def test_each_fix_that_is_run_elsewhere_names_the_command(advised: AdvisedCommands) -> None:
    assert [fix for fix in ELSEWHERE if fix[1] not in advised.by_id[fix[0]]] == []


@pytest.mark.parametrize(("fix", "test"), ELSEWHERE.items())
def test_what_is_said_to_be_run_elsewhere_is(fix: tuple[str, str], test: str) -> None:
    error_id, command = fix
    text = (ROOT / test).read_text(encoding="utf-8")
    assert error_id in text
    assert f'"{command}", ' in text
