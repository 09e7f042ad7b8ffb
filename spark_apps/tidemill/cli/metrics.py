"""`tidemill metrics`: metrics for Prometheus and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from tidemill.observe.exporter import Watched

AirflowUrl = Annotated[
    str, typer.Option(help="URL of Airflow's API server, to include its health. Default: not included.")
]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Metrics for Prometheus.", no_args_is_help=True, rich_markup_mode=None)
    for verb in (serve, show, list_metrics):
        group.command("list" if verb is list_metrics else None)(verb)
    app.add_typer(group, name="metrics")


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 9464,
    refresh: Annotated[
        int, typer.Option(min=1, max=3600, help="Seconds between two reads of the storage.")
    ] = 15,
    airflow_url: AirflowUrl = "",
) -> None:
    """Serve the metrics of an environment on one port until CTRL-C, without changing anything."""
    from datetime import timedelta

    from tidemill.dev.stop_request import stop_on_signals
    from tidemill.engine.http_port import serve as listen
    from tidemill.observe.exporter import Exporter

    exporter = Exporter(_watched(invocation_of(context), airflow_url), timedelta(seconds=refresh))
    server = listen((host, port), exporter.answer)
    if server is None:
        raise UnavailableError(
            "TIDE-OBS-001",
            "The port of the metrics cannot be opened.",
            facts={"host": host, "port": port},
            fix="end what listens there, or name another --port",
        )
    say(f"metrics at {server.url}/metrics")
    with stop_on_signals() as stop:
        exporter.refresh_until(stop)


def show(context: typer.Context, airflow_url: AirflowUrl = "") -> None:
    """Print the metrics once, as `serve` would."""
    typer.echo(_watched(invocation_of(context), airflow_url).page(), nl=False)


def list_metrics(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List all metrics of drivers and of `metrics serve`."""
    from tidemill.metrics import CONTROL_METRICS, DRIVER_METRICS

    every = [*DRIVER_METRICS, *CONTROL_METRICS]
    if as_json:
        print_json(
            [{"name": m.name, "kind": m.kind, "labels": list(m.labels), "about": m.about} for m in every]
        )
    else:
        print_table(
            ("name", "kind", "labels", "about"),
            [(m.name, m.kind, ", ".join(m.labels), m.about) for m in every],
        )


def _watched(invocation: Invocation, airflow_url: str) -> Watched:
    import re

    from tidemill.observe.exporter import Watched
    from tidemill.spec.web_address import WEB_ADDRESS_PATTERN
    from tidemill.storage.store import Store

    if airflow_url and re.fullmatch(WEB_ADDRESS_PATTERN, airflow_url) is None:
        raise UsageError(
            "TIDE-OBS-002",
            "This is not the address of an API server.",
            # Without the address, which may contain a password.
            facts={"option": "--airflow-url"},
            fix="name it as http://HOST:PORT, without user, password or query",
        )
    environment = invocation.environment()
    return Watched(environment, Store(environment.layout.root), airflow_url)
