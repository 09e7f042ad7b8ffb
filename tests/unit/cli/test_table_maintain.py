"""`tidemill table maintain`: the plan first, then the act; in a protected environment with approval."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.conf_project import ENVIRONMENT
from tests.support.small_files import SmallFiles
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.cli import progress_bar
from tidemill.cli.app import main
from tidemill.cli.progress_bar import Stand

FILES = 20


@pytest.fixture
def orders(tmp_path: Path) -> SmallFiles:
    made = SmallFiles(tmp_path)
    made.write(FILES)
    made.delta.optimize.compact()
    made.age(8)
    return made


def run(orders: SmallFiles, *words: str) -> int:
    return main(["--project", str(orders.project.folder), "table", "maintain", *words])


def test_the_plan_changes_nothing_and_prints_the_command(
    orders: SmallFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(orders, "bronze/orders") == 0
    told = capsys.readouterr().out
    assert "data files to delete: 20" in told
    assert "table maintain bronze/orders --apply" in told
    assert len(orders.data_files()) == FILES + 1


def test_apply_deletes_what_nobody_needs_and_leaves_an_audit_entry(
    orders: SmallFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(orders, "--apply", "--json", "--by", "ann") == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert (table["table"], table["deleted"], table["failed"]) == ("bronze/orders", FILES, [])
    assert orders.ids() == list(range(FILES))
    (entry,) = read_audit(orders.store, orders.layout)
    assert (entry.verb, entry.by) == ("maintain", "ann")
    assert entry.after is not None
    assert entry.after["table"] == "bronze/orders"


def test_a_protected_environment_deletes_with_approval_only(orders: SmallFiles) -> None:
    orders.project.write("conf/environments/local.yaml", f"{ENVIRONMENT}\nprotected: true\n")
    assert run(orders, "--apply") == 0
    assert len(orders.data_files()) == FILES + 1
    assert run(orders, "--apply", "--by", "ann", "--approved-by", "ann") == 1
    assert len(orders.data_files()) == FILES + 1
    assert run(orders, "--apply", "--by", "ann", "--approved-by", "ben") == 0
    assert len(orders.data_files()) == 1


def test_an_unknown_table_is_refused_with_the_near_one(
    orders: SmallFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(orders, "bronze/order", "--apply") == 2
    told = capsys.readouterr().err
    assert "TIDE-TABL-001" in told
    assert "did you mean bronze/orders?" in told
    assert len(orders.data_files()) == FILES + 1


def test_a_damaged_table_is_red_and_stops_no_other(
    orders: SmallFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    orders.declare("torn", "{kafka: {topic: orders}}", "bronze/a_torn_one")
    log = Path(orders.layout.table("bronze/a_torn_one")) / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{")
    assert run(orders, "--apply") == 1
    assert "TIDE-LEDG-001" in capsys.readouterr().out
    assert len(orders.data_files()) == 1


def test_a_terminal_shows_which_table_and_step_is_at_work(
    orders: SmallFiles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent, stands = StringIO(), list[Stand]()
    screen = Console(file=sent, force_terminal=True, width=120, color_system=None, _environ={})
    monkeypatch.setattr(progress_bar, "error_console", lambda: screen)
    words = progress_bar.words

    def noted(unit: str, stand: Stand, seconds: float) -> str:
        stands.append(stand)
        return words(unit, stand, seconds)

    monkeypatch.setattr(progress_bar, "words", noted)
    assert run(orders, "--apply") == 0
    told = [(stand.done, stand.step, stand.note) for stand in stands]
    assert told[0] == (0, "bronze/orders: log and files are read", "")
    assert (0, "bronze/orders: data files are deleted", f"{FILES} of {FILES}") in told
    assert told[-1] == (1, "bronze/orders is done", "")
    assert "100% 1 of 1 tables, bronze/orders is done" in sent.getvalue()
    # The result is printed where it always was.
    assert "bronze/orders: deleted 20 data files" in capsys.readouterr().out


def test_a_pipe_has_the_beginning_and_the_end_of_the_maintenance_and_beside_json_none(
    orders: SmallFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(orders, "--apply") == 0
    assert capsys.readouterr().err.splitlines() == [
        "maintenance: 0 of 1 tables, bronze/orders: log and files are read",
        "maintenance: 1 of 1 tables, bronze/orders is done",
    ]
    assert run(orders, "--apply", "--json") == 0
    assert capsys.readouterr().err == ""
