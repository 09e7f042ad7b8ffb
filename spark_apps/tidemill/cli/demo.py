"""`tidemill dev demo` and `tidemill dev demo-stop`."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import console, say

if TYPE_CHECKING:
    from tidemill.dev.airflow_standalone import AirflowServer
    from tidemill.dev.demo import Demo


def demo(context: typer.Context) -> None:
    """Start broker, generator and Airflow, and show how events become tables."""
    from tidemill.dev.demo import Demo, start_demo
    from tidemill.dev.demo_view import every_few_seconds, wait_for_windows

    shown = Demo(invocation_of(context).project())
    airflow = start_demo(shown, say)
    if sys.stdout.isatty():
        _watch(shown, airflow)
        return
    seen = wait_for_windows(shown, every_few_seconds(say))
    say(f"first windows are committed: {seen.windows}; all goes on until `make demo-stop`")


def demo_stop(context: typer.Context) -> None:
    """Stop everything that the demo started. The data is kept."""
    from tidemill.dev.demo import Demo, stop_demo

    if not stop_demo(Demo(invocation_of(context).project()), say):
        raise typer.Exit(1)


def _watch(shown: Demo, airflow: AirflowServer) -> None:
    from rich.live import Live

    from tidemill.dev.demo_view import LOOK_SECONDS, look, picture, wait_for_windows

    plane = shown.plane()
    before = look(plane)
    live = Live(picture(before, airflow, None), console=console(), auto_refresh=False)
    # CTRL-C is the normal way to end the view and not a failure.
    with contextlib.suppress(KeyboardInterrupt), live:
        wait_for_windows(shown, lambda seen: live.update(picture(seen, airflow, None), refresh=True))
        while True:
            time.sleep(LOOK_SECONDS)
            seen = look(plane)
            live.update(picture(seen, airflow, before), refresh=True)
            before = seen
