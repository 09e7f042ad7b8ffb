"""`tidemill status --watch`: the table again and again, in one place, until CTRL-C."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.cli import status as module
from tidemill.storage.store import Store

CLEARED = "\x1b[2K"


def test_each_look_shows_what_is_new_and_ctrl_c_is_no_failure(
    tidemill: CommandLine, project: ConfProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, slept = StringIO(), list[float]()
    screen = Console(file=sent, force_terminal=True, width=200, color_system=None, _environ={})
    layout = project.load().layout
    wish = Desired(state="stopped", by="ann", reason="a test")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt
        write_desired(Store(layout.root), layout, "orders", wish)

    monkeypatch.setattr(module, "console", lambda: screen)
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=sleep))
    assert tidemill("status", "orders", "--watch") == 0, tidemill.err
    first, _, last = sent.getvalue().partition(CLEARED)
    assert [line.split()[:3] for line in (first.splitlines()[-1], last.splitlines()[-2])] == [
        ["orders", "stream", "running"],
        ["orders", "stream", "stopped"],
    ]
    assert slept == [module.WATCH_SECONDS] * 2
    assert sent.getvalue().endswith("\x1b[?25h"), "the cursor is shown again"


def test_json_is_not_watched(tidemill: CommandLine, project: ConfProject) -> None:
    assert tidemill("status", "--watch", "--json") == 2
    assert "call --json again" in tidemill.err
