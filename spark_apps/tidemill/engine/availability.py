"""Waits for a source that does not answer, and retries after a source was lost."""

from __future__ import annotations

import random
from pathlib import Path

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.classify import classify
from tidemill.engine.drain import Drain
from tidemill.engine.reporter import Reporter
from tidemill.errors import AbsentError, SpecError, TidemillError, UnavailableError
from tidemill.ledger.read import open_table
from tidemill.names import CHANGE_FEED
from tidemill.sources.file_listing import no_files
from tidemill.sources.kafka_clients import KafkaClient, environment_client, kafka_client
from tidemill.sources.offsets import KafkaOffsets
from tidemill.spec.files_place import WILDCARDS
from tidemill.spec.files_source import FilesSource
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Waits between attempts, in seconds: short at first, for a broker that restarts, then longer.
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0

# Maximum time for which one driver retries before it exits with 69, in seconds. The control plane starts it
# again after a pause. A new process also drops outdated network state.
PATIENCE_SECONDS = 600.0

# Errors that Spark reports when a broker refuses a token, or when a client cannot get a token.
_MAYBE_OF_TOKENS = frozenset({"TIDE-SRC-001", "TIDE-SRC-003"})


class Backoff:
    """Exponential backoff with jitter, up to `PATIENCE_SECONDS` in total; a success resets it."""

    def __init__(self, drain: Drain, reporter: Reporter) -> None:
        self._drain = drain
        self._reporter = reporter
        self._attempt = 0
        self._waited = 0.0

    def succeeded(self) -> None:
        """Reset the backoff, because the source answered."""
        self._attempt, self._waited = 0, 0.0

    def wait(self, error: UnavailableError) -> bool:
        """Report the reason and wait; return False if a drain was requested during the wait.

        Raises:
            UnavailableError: The given error, if the waits have used up `PATIENCE_SECONDS`.
        """
        if self._waited >= PATIENCE_SECONDS:
            raise error
        seconds = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2**self._attempt) * random.uniform(0.8, 1.2)  # noqa: S311  # jitter
        self._attempt += 1
        self._waited += seconds
        self._reporter.state("waiting", error)
        return not self._drain.wait(seconds)


def check_source(pipeline: Pipeline) -> None:
    """Check that each source exists, because Spark would need minutes to report it or would fail for good.

    Raises:
        UnavailableError: TIDE-SRC-001, if no broker answers.
        AbsentError: If something to read does not exist: TIDE-SRC-002 for a topic, TIDE-SRC-005 for a table
            or folder, TIDE-JOIN-001 for a joined folder.
        SpecError: TIDE-CDC-005, if a table to read has no change feed but the source needs it.
    """
    for table in pipeline.spec.tables.values():
        _check_table(pipeline, table)
    for name, part in pipeline.joined_files.items():
        _check_joined_folder(part, name)
    for stream in pipeline.streams.values():
        _check_stream(stream)


def failure_of(pipeline: Pipeline, error: Exception) -> TidemillError:
    """Return the Tidemill error for a failure; if a broker refused a token during the run, check the tokens.

    A token that could not be renewed in time is refused like a wrong password, but waiting helps. A permanent
    error shows when the next token is requested, here or at the next start.
    """
    failure = classify(error)
    # Errors from Spark or from a task do not name the pipeline.
    failure.fix = failure.fix.replace("PIPELINE", pipeline.name)
    if isinstance(error, TidemillError) or failure.error_id not in _MAYBE_OF_TOKENS:
        return failure
    try:
        clients = _clients_by_token(pipeline)
        for client in clients:
            client.librdkafka_config()
    except TidemillError as cause:
        return cause
    if not clients or isinstance(failure, UnavailableError):
        return failure
    return UnavailableError(
        "TIDE-HUB-036",
        "The broker refused a token while the pipeline ran.",
        facts={"bootstrap_servers": ", ".join(sorted({each.bootstrap_servers for each in clients}))},
        fix="nothing, if tokens could not be had for a while: the driver goes on with a new one; else see "
        "the roles of the identity",
        runbook="source-unavailable",
    )


def _clients_by_token(pipeline: Pipeline) -> list[KafkaClient]:
    """Return the Kafka clients of sources and sinks that log in with a token."""
    clients = [kafka_client(each) for each in pipeline.streams.values() if each.spec.source.is_kafka]
    if any(sink.kafka is not None for sink in pipeline.spec.sinks):
        clients.append(environment_client(pipeline.environment))
    return [client for client in clients if client.login is not None]


def _check_stream(pipeline: Pipeline) -> None:
    source = pipeline.spec.source
    if source.is_kafka:
        with KafkaOffsets(kafka_client(pipeline)) as offsets:
            offsets.partitions(offsets.found(source.topics_or_pattern))
    elif source.delta is not None:
        _check_table(pipeline, source.delta.table)
        if source.delta.read_changes:
            _check_change_feed(pipeline, source.delta.table)
    elif source.files is not None and not _has_folder(pipeline, source.files):
        folder = pipeline.layout.folder(source.files.path)
        raise _not_there_yet("folder", folder, "put the first file there")


def _check_table(pipeline: Pipeline, table: str) -> None:
    if open_table(pipeline.layout.table(table)) is None:
        raise _not_there_yet("table", table, "run the pipeline that writes it")


def _check_change_feed(pipeline: Pipeline, name: str) -> None:
    table = open_table(pipeline.layout.table(name))
    if table is not None and table.metadata().configuration.get(CHANGE_FEED) != "true":
        raise SpecError(
            "TIDE-CDC-005",
            "The table to read keeps no change feed.",
            facts={"pipeline": pipeline.name, "table": name},
            fix="set `change_feed: true` of the sink that makes it; of a table that exists, set its property "
            f"{CHANGE_FEED} to true: changes are kept from then on",
        )


def _has_folder(pipeline: Pipeline, files: FilesSource) -> bool:
    """Return True if a folder exists, even an empty one.

    In an object store a folder without files does not exist. If the pipeline has read files from it before,
    it counts as empty. Folders outside the storage root are left to Spark.
    """
    path = pipeline.layout.folder(files.path)
    local = path.removeprefix("file://")
    # Spark resolves wildcards.
    if WILDCARDS & set(files.path):
        return True
    if "://" not in local:
        return Path(local).is_dir()
    root = pipeline.layout.root
    if not path.startswith(f"{root}/"):
        return True
    store = Store(root)
    return bool(store.list_names(path)) or _has_read(store, pipeline)


def _has_read(store: Store, pipeline: Pipeline) -> bool:
    """Return True if the pipeline has planned a batch."""
    current = read_current(store, pipeline.layout, pipeline.name)
    if current is None:
        return False
    checkpoint = pipeline.layout.checkpoint(pipeline.name, current.generation)
    return CheckpointBatches(store, checkpoint).last_planned() is not None


def _check_joined_folder(part: Pipeline, name: str) -> None:
    """Check that the folder exists, where that needs no Spark; Spark lists the files and their content."""
    declared = part.spec.source.chosen.path
    path, root = part.layout.folder(declared), part.layout.root
    local = path.removeprefix("file://")
    if WILDCARDS & set(declared):
        return
    if "://" not in local:
        is_there = Path(local).exists()
    elif path.startswith(f"{root}/"):
        store = Store(root)
        is_there = bool(store.list_names(path)) or store.identity(path) is not None
    else:
        return
    if not is_there:
        raise no_files(part, name, "it does not exist")


def _not_there_yet(kind: str, name: str, fix: str) -> AbsentError:
    return AbsentError(
        "TIDE-SRC-005",
        f"The {kind} to read does not exist.",
        facts={kind: name},
        fix=f"correct its name in the pipeline file; or {fix}",
        runbook="source-unavailable",
    )
