"""Every name and path rule, once.

Nothing else in Tidemill builds a path below the storage root, a Kubernetes name or a transaction id;
`tests/unit/test_names.py` pins what is here, because stored data depends on it. What Airflow knows things
by is in `airflow_names.py`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from tidemill.errors import SpecError

PIPELINE_PATTERN = r"[a-z][a-z0-9_]{0,39}"
ENVIRONMENT_PATTERN = r"[a-z][a-z0-9_-]{0,39}"
ZONES = ("bronze", "silver", "gold")
TABLE_PATTERN = rf"({'|'.join(ZONES)})/[a-z][a-z0-9_]{{0,63}}"
GENERATION_PATTERN = r"g[0-9]{4}"

FIRST_GENERATION = "g0001"
# Tables of records that were set aside; only batches that have such records write to them.
QUARANTINE_OUTPUT = "quarantine"
LATE_OUTPUT = "late"
ASIDE_OUTPUTS = (QUARANTINE_OUTPUT, LATE_OUTPUT)

# Path of a table in memory at its driver's port, and the key of its newest batch in the answer's schema.
MEMORY_PATH, NEWEST_BATCH = "/memory/", b"tidemill.newest_batch"

# Reason in the quarantine of a record at which the transform fails: `transform_failed:<error>: <message>`.
TRANSFORM_FAILED = "transform_failed"

# What ledger entries call the stream of a pipeline that has one.
SOURCE_NAME = "source"

# Columns that name the record that a row was made of.
LINEAGE_COLUMNS = ("kafka_topic", "kafka_partition", "kafka_offset")

# Column of a files source that discovers its columns: JSON text of what stands in no other column.
RESCUED_DATA = "_rescued_data"

# Delta's property of a table whose changes can be read, and the columns that they come with.
CHANGE_FEED = "delta.enableChangeDataFeed"
CHANGE_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")

# Property of a table whose columns have other names in its files, so that they can be renamed or dropped.
COLUMN_MAPPING = "delta.columnMapping.mode"
# Property of a table whose rows are never updated or deleted.
APPEND_ONLY = "delta.appendOnly"
# Folder of a checkpoint with the schemas that its streams of such tables were read with.
SCHEMAS_FOLDER = "schemas"


# Folder beside a files source's own, or below the root, where files go that were read: `archived/<path>`.
ARCHIVED = "archived"

# Folders below the root that only Tidemill writes.
OWN_FOLDERS = frozenset(
    {"tables", *ASIDE_OUTPUTS, "state", "audit", "backfills", "control", "game_days", "shadows", ARCHIVED}
)

# The table with what game days have measured; in no zone that a pipeline can write.
GAME_DAYS_TABLE = "platform/game_days"


def plain_parts(location: str) -> list[str]:
    """The parts of a path or URI, without those that say nothing."""
    parts = (part for part in location.removeprefix("file:").split("/") if part not in ("", "."))
    # The same stores under two names.
    return [{"abfs:": "abfss:", "s3:": "s3a:"}.get(part, part) for part in parts]


def sql_table(path: str) -> str:
    """Return the Delta table at `path` as Spark's SQL names it, e.g. "delta.`/data/orders`"."""
    return f"delta.`{path.replace('`', '``')}`"


def literal_glob(path: str) -> str:
    """Return the pattern that Spark reads for exactly `path`, because it takes `[x]` in any path for one."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def has_pattern(path: str) -> bool:
    """True if Spark would take a part of the path for a pattern."""
    return literal_glob(path) != path


def check_pipeline_name(name: str) -> str:
    """Return `name` if it can name a pipeline.

    Raises:
        SpecError: TIDE-SPEC-010, if the name could not be used as a path, DAG id and metric label.
    """
    if re.fullmatch(PIPELINE_PATTERN, name) is None:
        raise SpecError(
            "TIDE-SPEC-010",
            "This is not a pipeline name.",
            facts={"name": ascii(name[:80]), "pattern": PIPELINE_PATTERN},
            fix="use lower-case letters, digits and underscores, starting with a letter, 40 at most",
        )
    return name


def transaction_id(pipeline: str, generation: str, output: str) -> str:
    """Delta `txnAppId` of one output of a pipeline, e.g. `orders:g0001:bronze/orders`."""
    return f"{pipeline}:{generation}:{output}"


def source_name(key: str) -> str:
    """Name in ledger entries of what a checkpoint calls `key`: a place in the plan, or the stream's own name.

    Places become `source`, `source.1`, and so on: uses of the one stream.
    """
    if not key.isdecimal():
        return key
    return SOURCE_NAME if key == "0" else f"{SOURCE_NAME}.{key}"


def query_name(pipeline: str) -> str:
    """Name of the Spark streaming query."""
    return pipeline


def consumer_group_prefix(pipeline: str) -> str:
    """Kafka `groupIdPrefix`, so that a broker's ACLs and metrics can name the pipeline."""
    return f"tidemill-{pipeline}"


def kubernetes_name(pipeline: str, slot: str = "main") -> str:
    """Objects of a slot of a pipeline on Kubernetes, e.g. `tidemill-orders`, `tidemill-orders.backfill`.

    The dot keeps the backfill of `orders` apart from a pipeline `orders_backfill`.

    Raises:
        SpecError: TIDE-SPEC-041, if the name ends in an underscore, which no object's name can.
    """
    if pipeline.endswith("_"):
        raise SpecError(
            "TIDE-SPEC-041",
            "This pipeline cannot run on Kubernetes: its name ends in an underscore.",
            facts={"pipeline": pipeline},
            fix="a name is the pipeline's identity, also in storage: declare it under another name",
        )
    name = f"tidemill-{pipeline.replace('_', '-')}"
    return name if slot == "main" else f"{name}.{slot}"


def kubernetes_job_name(pipeline: str, start: str) -> str:
    """Job of one start of a bounded run, e.g. `tidemill-iot-events-1f2e3d4c`; `start` tells starts apart."""
    return f"{kubernetes_name(pipeline)}-{hashlib.sha256(start.encode()).hexdigest()[:8]}"


def catalogued_name(catalog: str | None, table: str) -> str:
    """What people call the table `silver/orders`: `lake.silver.orders` in the catalog `lake`."""
    return table if catalog is None else f"{catalog}.{table.replace('/', '.')}"


@dataclass(frozen=True)
class Layout:
    """Where everything of one environment lives.

    Args:
        root: Storage root without a trailing slash: an absolute local path or a URI.
    """

    root: str

    def table(self, table: str) -> str:
        """Delta table `<zone>/<table>`."""
        return f"{self.root}/tables/{table}"

    def folder(self, path: str) -> str:
        """Folder that a pipeline file names: a URI as it stands, or a path below the root."""
        return path if "://" in path else f"{self.root}/{path}"

    def folder_pattern(self, path: str) -> str:
        """Return what Spark reads of such a folder: its `*` is a pattern, and no character of the root is."""
        return path if "://" in path else f"{literal_glob(self.root)}/{path}"

    def folder_parts(self, path: str) -> list[str]:
        """The parts of a folder that a pipeline file names, however it is spelled."""
        return plain_parts(self.folder(path))

    def is_own(self, path: str) -> bool:
        """Whether a folder that a pipeline file names is the root itself, or a part that Tidemill owns."""
        here, root = self.folder_parts(path), plain_parts(self.root)
        first = here[len(root) : len(root) + 1]
        return here == root[: len(here)] or (here[: len(root)] == root and first[0] in OWN_FOLDERS)

    def aside(self, output: str, pipeline: str) -> str:
        """Delta table of the records of a pipeline that were set aside, by one of `ASIDE_OUTPUTS`."""
        return f"{self.root}/{output}/{pipeline}"

    def quarantine(self, pipeline: str) -> str:
        """Delta table of the rejected records of a pipeline."""
        return self.aside(QUARANTINE_OUTPUT, pipeline)

    def late(self, pipeline: str) -> str:
        """Delta table of the late records of a pipeline."""
        return self.aside(LATE_OUTPUT, pipeline)

    def game_day(self, pipeline: str) -> str:
        """Root of the copy of a pipeline on which drills are done; gone when they are."""
        return f"{self.root}/game_days/{pipeline}"

    def shadow(self, pipeline: str) -> str:
        """Root of the copy of a pipeline on which a new version repeats batches; gone when it has."""
        return f"{self.root}/shadows/{pipeline}"

    @property
    def states(self) -> str:
        """Folder of all state folders; also of pipelines that are not declared any more."""
        return f"{self.root}/state"

    def state(self, pipeline: str) -> str:
        """Folder with all control files and checkpoints of a pipeline."""
        return f"{self.states}/{pipeline}"

    def checkpoint(self, pipeline: str, generation: str) -> str:
        """Spark checkpoint directory of a generation; touched by Spark only."""
        return f"{self.state(pipeline)}/{generation}"

    def current(self, pipeline: str) -> str:
        """Folder of the numbered records of which generation is live, and why; the newest one counts."""
        return f"{self.state(pipeline)}/current"

    def holds(self, pipeline: str) -> str:
        """Folder of the holds that forbid a start."""
        return f"{self.state(pipeline)}/holds"

    def journal(self, pipeline: str) -> str:
        """Folder of what each verb planned and how far it came, one file per request."""
        return f"{self.state(pipeline)}/journal"

    def backups(self, pipeline: str) -> str:
        """Folder of the backups, one folder each."""
        return f"{self.state(pipeline)}/backups"

    def trash(self, pipeline: str) -> str:
        """Folder of what was moved away instead of deleted, one folder per request."""
        return f"{self.state(pipeline)}/trash"

    def registered_schemas(self, pipeline: str, registry: str) -> str:
        """Folder of the schemas that a registry told; another registry has other numbers for them."""
        return f"{self.state(pipeline)}/schemas/{hashlib.sha256(registry.encode()).hexdigest()[:16]}"

    @property
    def control(self) -> str:
        """Which control plane owns the root."""
        return f"{self.root}/control.json"

    @property
    def reconciliation(self) -> str:
        """What the newest reconciliation has found."""
        return f"{self.root}/reconciliation.json"

    @property
    def waiting_tasks(self) -> str:
        """Folder with a note of each Airflow task that waits for a bounded run."""
        return f"{self.root}/control/waiting"

    def waiting_task(self, pipeline: str, run_id: str) -> str:
        """One such note."""
        return f"{self.waiting_tasks}/{pipeline}.{run_id}.json"

    def untold_runs(self, task: str) -> str:
        """Which bounded runs an Airflow task of one DAG run has started, and not told of yet."""
        return f"{self.root}/control/untold/{task}.json"

    @property
    def audit(self) -> str:
        """Folder with one entry per action: who, why, before, after."""
        return f"{self.root}/audit"

    def status(self, pipeline: str) -> str:
        """What the driver says of itself after each batch."""
        return f"{self.state(pipeline)}/status.json"

    def query_report(self, pipeline: str) -> str:
        """What the driver says of its streaming query every few seconds."""
        return f"{self.state(pipeline)}/query.json"

    def desired(self, pipeline: str) -> str:
        """What a person asked for: running, stopped or suspended."""
        return f"{self.state(pipeline)}/desired.json"

    def models(self, pipeline: str, digest: str) -> str:
        """Folder from which Spark reads a model of its own, whose files have that digest."""
        return f"{self.state(pipeline)}/models/{digest.removeprefix('sha256:')[:16]}"

    def source_schemas(self, pipeline: str, stream: str) -> str:
        """Folder of the numbered versions of the columns that one stream's files have had."""
        return f"{self.state(pipeline)}/schemas/{stream}"

    def listing(self, pipeline: str, digest: str) -> str:
        """File with the files that a joined folder had, by the digest that ledger entries name."""
        return f"{self.state(pipeline)}/listings/{digest.removeprefix('sha256:')}.json.gz"

    def deleted_files(self, pipeline: str, stream: str) -> str:
        """Folder of what was deleted of one stream's files after they were read, one file per request."""
        return f"{self.state(pipeline)}/deleted_files/{stream}"

    def poison(self, pipeline: str, code: str) -> str:
        """Folder of the records at which one code of a pipeline's transform failed, one file each."""
        return f"{self.state(pipeline)}/poison/{code}"

    def epochs(self, pipeline: str) -> str:
        """Folder of the epochs that drivers claimed."""
        return f"{self.state(pipeline)}/epochs"

    def receipts(self, pipeline: str) -> str:
        """Folder of what stopped drivers left."""
        return f"{self.state(pipeline)}/receipts"

    def parts(self, pipeline: str) -> str:
        """Folder of what parts of verbs that need Spark have come to, one file each."""
        return f"{self.state(pipeline)}/parts"

    def stop_note(self, pipeline: str, run_id: str) -> str:
        """The note that a person stopped a bounded run."""
        return f"{self.state(pipeline)}/stops/{run_id}.json"

    def turn(self, pipeline: str) -> str:
        """The file with which a backfill makes the pipeline's drivers wait while it commits."""
        return f"{self.state(pipeline)}/turn.json"

    def row_origin(self, pipeline: str, found_in: str) -> str:
        """What was found out about the rows of a pipeline, by digest of the code that it was found in."""
        return f"{self.state(pipeline)}/origins/{found_in}.json"

    def meanings(self, pipeline: str, code: str) -> str:
        """What the stateful operators of a version compute, by digest of its code."""
        return f"{self.state(pipeline)}/meanings/{code}.json"

    def backfill(self, pipeline: str, plan: str) -> str:
        """Folder with everything about one plan of a backfill, by its digest."""
        return f"{self.backfills}/{pipeline}-{plan}"

    def backfill_plan(self, pipeline: str, plan: str) -> str:
        """What was decided."""
        return f"{self.backfill(pipeline, plan)}/plan.json"

    @property
    def backfills(self) -> str:
        """Folder of all plans of backfills."""
        return f"{self.root}/backfills"

    def backfill_progress(self, pipeline: str, plan: str) -> str:
        """Which of its chunks are done."""
        return f"{self.backfill(pipeline, plan)}/progress.json"

    def backfill_status(self, pipeline: str, plan: str) -> str:
        """What the driver that carries it out says of itself."""
        return f"{self.backfill(pipeline, plan)}/status.json"

    def backfill_request(self, pipeline: str, plan: str) -> str:
        """That a person wants its staged rows in the tables."""
        return f"{self.backfill(pipeline, plan)}/publish.json"

    def backfill_downstream(self, pipeline: str, plan: str) -> str:
        """Which pipelines behind it have been processed again."""
        return f"{self.backfill(pipeline, plan)}/downstream.json"

    def staged(self, pipeline: str, plan: str) -> str:
        """Folder of the rows that wait to be published, one folder per attempt."""
        return f"{self.backfill(pipeline, plan)}/staged"

    def staging(self, pipeline: str, plan: str, attempt: str) -> Layout:
        """Where one attempt stages its rows: laid out like a root of its own."""
        return Layout(f"{self.staged(pipeline, plan)}/{attempt}")

    def leaving(self, output: str, pipeline: str) -> str:
        """Delta table, in a staging area, of records that leave one of `ASIDE_OUTPUTS` with publishing."""
        return f"{self.root}/leaving/{output}/{pipeline}"
