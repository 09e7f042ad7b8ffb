"""`tidemill dev …`: a broker, test events and generated files for a developer's machine."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidemill.cli.demo import demo, demo_stop
from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import say

if TYPE_CHECKING:
    from tidemill.dev.broker_process import BrokerProcess
    from tidemill.dev.hub_outlet import HubTarget
    from tidemill.dev.produce import ProduceReport, Target


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Tools for development.", no_args_is_help=True, rich_markup_mode=None)
    for verb in (demo, demo_stop, broker, topics, produce, generate):
        group.command()(verb)
    app.add_typer(group, name="dev")


def broker(
    folder: Annotated[Path, typer.Option(help="Folder for records and log.")] = Path(".data/broker"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 means any free port.")] = 9092,
    topic: Annotated[list[str] | None, typer.Option(help="Create this topic. May be repeated.")] = None,
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions of new topics.")] = 4,
) -> None:
    """Run a real single-node Kafka broker until CTRL-C."""
    from tidemill.dev.broker import serve_broker
    from tidemill.dev.broker_config import BrokerConfig
    from tidemill.dev.stop_request import stop_on_signals
    from tidemill.dev.topics import create_topic

    def tell(process: BrokerProcess) -> None:
        for name in topic or []:
            create_topic(process.bootstrap_servers, name, partitions)
        say(f"Kafka answers at {process.bootstrap_servers}, pid {process.pid}, log {process.log}")

    with stop_on_signals() as stop:
        serve_broker(BrokerConfig(folder, port), stop, tell)


def topics(
    topic: Annotated[list[str], typer.Argument(help="Topic to create, as NAME:PARTITIONS.")],
    servers: Annotated[str, typer.Option(help="Brokers as host:port.")] = "localhost:9092",
) -> None:
    """Create topics. Existing topics are not changed."""
    from tidemill.dev.topics import create_topic

    # All arguments are parsed before the first topic is created.
    for name, partitions in [_topic(text) for text in topic]:
        is_new = create_topic(servers, name, partitions)
        say(f"{name}: {'made' if is_new else 'was there'}, {partitions} partitions")


def produce(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="Existing topic or event hub.")] = "iot_events",
    to: Annotated[
        Literal["kafka", "eventhubs"], typer.Option(help="Kafka, or an event hub over AMQP.")
    ] = "kafka",
    secret: Annotated[
        str | None,
        typer.Option(help="Name of this environment's secret with the connection string of the event hub."),
    ] = None,
    servers: Annotated[str, typer.Option(help="Brokers as host:port.")] = "localhost:9092",
    rate: Annotated[
        float | None, typer.Option(help="Events per second; 0 means as fast as possible.")
    ] = 100.0,
    count: Annotated[int | None, typer.Option(min=1, help="Number of events. Default: no limit.")] = None,
    seed: Annotated[int, typer.Option(help="Seed. The same seed generates the same events.")] = 0,
    interval_ms: Annotated[int, typer.Option(min=0, help="Milliseconds of event time between events.")] = 100,
    start: Annotated[str | None, typer.Option(help="First event time, ISO 8601. Default: now.")] = None,
    not_ahead: Annotated[
        bool, typer.Option("--not-ahead", help="Do not send events before their event time.")
    ] = False,
    late: Annotated[float, typer.Option(min=0, max=1, help="Fraction of late events.")] = 0.0,
    too_late: Annotated[
        float, typer.Option(min=0, max=1, help="Fraction of events later than the watermark.")
    ] = 0.0,
    duplicate: Annotated[float, typer.Option(min=0, max=1, help="Fraction of repeated events.")] = 0.0,
    broken: Annotated[float, typer.Option(min=0, max=1, help="Fraction of unreadable records.")] = 0.0,
) -> None:
    """Send generated IoT events to a topic or an event hub until CTRL-C or --count."""
    from tidemill.dev.iot_events import IotSettings
    from tidemill.dev.produce import Pace
    from tidemill.dev.produce import produce as send
    from tidemill.dev.stop_request import stop_on_signals

    settings = IotSettings(
        start=_moment(start),
        seed=seed,
        interval=timedelta(milliseconds=interval_ms),
        late_rate=late,
        too_late_rate=too_late,
        duplicate_rate=duplicate,
        broken_rate=broken,
    )
    pace = Pace(events_per_second=rate or None, count=count, not_ahead=not_ahead)
    if (to == "eventhubs") != (secret is not None):
        raise typer.BadParameter("--secret goes with --to eventhubs, and only with it")
    target = _hub(context, topic, secret) if secret is not None else _kafka(servers, topic)
    with stop_on_signals() as stop:
        _tell(send(target, settings, pace, stop, _tell), end="\n")


def generate(
    context: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Fail if a file differs, without changing it.")
    ] = False,
) -> None:
    """Generate conf/README.md, the JSON Schemas of conf files, and references of chart and engine."""
    from tidemill.dev.chart_reference import differing_chart_files, write_chart_files
    from tidemill.dev.metrics_reference import differing_metrics_files, write_metrics_files
    from tidemill.spec.reference import differing_files, write_generated

    folder = invocation_of(context).project().folder
    if not check:
        for file in (*write_generated(folder), *write_chart_files(folder), *write_metrics_files(folder)):
            say(f"wrote {file}")
        return
    differing = [
        *differing_files(folder),
        *differing_chart_files(folder),
        *differing_metrics_files(folder),
    ]
    for file in differing:
        sys.stderr.write(f"{file} differs from what the models say; run: tidemill dev generate\n")
    if differing:
        raise typer.Exit(1)


def _kafka(servers: str, topic: str) -> Target:
    from tidemill.dev.produce import Target

    return Target(servers, topic)


def _hub(context: typer.Context, hub: str, secret: str) -> HubTarget:
    from tidemill.dev.hub_outlet import HubTarget
    from tidemill.spec.secret_value import read_secret

    return HubTarget(hub, secret, read_secret(invocation_of(context).environment(), secret))


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.partition(":")
    if not (name and partitions.isdecimal() and int(partitions) > 0):
        raise typer.BadParameter(f"{text}: expected NAME:PARTITIONS")
    return name, int(partitions)


def _moment(text: str | None) -> datetime:
    try:
        moment = datetime.fromisoformat(text) if text else datetime.now(UTC).replace(microsecond=0)
    except ValueError as error:
        raise typer.BadParameter("--start is not ISO 8601") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _tell(report: ProduceReport, end: str = "\r") -> None:
    kinds = " ".join(f"{kind}={number}" for kind, number in report.sent.items() if number)
    sys.stderr.write(f"{report.total} events in {report.seconds:.0f} s  {kinds}{end}")
    sys.stderr.flush()
