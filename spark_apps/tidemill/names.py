"""Every name and path rule, defined once.

No other module builds a path below the storage root, a Kubernetes name or a transaction id.
`tests/unit/test_names.py` pins them, because stored data depends on them. Airflow's names are in
`airflow_names.py`.
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
# Tables of quarantined and late records; only batches that have such records write to them.
QUARANTINE_OUTPUT = "quarantine"
LATE_OUTPUT = "late"
ASIDE_OUTPUTS = (QUARANTINE_OUTPUT, LATE_OUTPUT)

# Path of an in-memory table at its driver's port, and the key of its newest batch in the answer's schema.
MEMORY_PATH, NEWEST_BATCH = "/memory/", b"tidemill.newest_batch"

# Reason in the quarantine of a record on which the transform fails: `transform_failed:<error>: <message>`.
TRANSFORM_FAILED = "transform_failed"

# Name of a pipeline's only stream in ledger entries.
SOURCE_NAME = "source"

# Columns that identify the record of a row.
LINEAGE_COLUMNS = ("kafka_topic", "kafka_partition", "kafka_offset")

# Column of a files source that discovers its columns: JSON text of the values that are in no other column.
RESCUED_DATA = "_rescued_data"

# Delta's property of a table whose changes can be read, and the columns of these changes.
CHANGE_FEED = "delta.enableChangeDataFeed"
CHANGE_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")

# Property of a table whose columns have other names in its files, so that they can be renamed or dropped.
COLUMN_MAPPING = "delta.columnMapping.mode"
# Property of a table whose rows are never updated or deleted.
APPEND_ONLY = "delta.appendOnly"
# Folder of a checkpoint with the schemas with which its streams of such tables were read.
SCHEMAS_FOLDER = "schemas"


# Folder for files that were read, next to a files source's own folder, or below the root: `archived/<path>`.
ARCHIVED = "archived"

# Folders below the root that only Tidemill writes.
OWN_FOLDERS = frozenset(
    {"tables", *ASIDE_OUTPUTS, "state", "audit", "backfills", "control", "game_days", "shadows", ARCHIVED}
)

# The table with the measurements of game days; in no zone that a pipeline can write.
GAME_DAYS_TABLE = "platform/game_days"


def plain_parts(location: str) -> list[str]:
    """Return the parts of a path or URI, without empty ones and `.`."""
    parts = (part for part in location.removeprefix("file:").split("/") if part not in ("", "."))
    # Stores with two schemes.
    return [{"abfs:": "abfss:", "s3:": "s3a:"}.get(part, part) for part in parts]


def sql_table(path: str) -> str:
    """Return the Delta table at `path` in Spark SQL's notation, e.g. "delta.`/data/orders`"."""
    return f"delta.`{path.replace('`', '``')}`"


def literal_glob(path: str) -> str:
    """Return the pattern that matches exactly `path`, because Spark treats `[x]` in any path as a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def has_pattern(path: str) -> bool:
    """Return True if Spark would treat a part of the path as a pattern."""
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
    """Return the Delta `txnAppId` of one output of a pipeline, e.g. `orders:g0001:bronze/orders`."""
    return f"{pipeline}:{generation}:{output}"


def source_name(key: str) -> str:
    """Return the name in ledger entries of a checkpoint's `key`: a position in the plan, or a stream's name.

    Positions become `source`, `source.1`, and so on, which are uses of the one stream.
    """
    if not key.isdecimal():
        return key
    return SOURCE_NAME if key == "0" else f"{SOURCE_NAME}.{key}"


def query_name(pipeline: str) -> str:
    """Return the name of the Spark streaming query."""
    return pipeline


def consumer_group_prefix(pipeline: str) -> str:
    """Return Kafka's `groupIdPrefix`, so that a broker's ACLs and metrics can name the pipeline."""
    return f"tidemill-{pipeline}"


def kubernetes_name(pipeline: str, slot: str = "main") -> str:
    """Return the name of a slot's Kubernetes objects, e.g. `tidemill-orders`, `tidemill-orders.backfill`.

    The dot distinguishes the backfill of `orders` from a pipeline `orders_backfill`.

    Raises:
        SpecError: TIDE-SPEC-041, if the name ends in an underscore, which Kubernetes does not allow.
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
    """Return the Job name of one start of a bounded run, e.g. `tidemill-iot-events-1f2e3d4c`.

    `start` distinguishes the starts of a run.
    """
    return f"{kubernetes_name(pipeline)}-{hashlib.sha256(start.encode()).hexdigest()[:8]}"


def catalogued_name(catalog: str | None, table: str) -> str:
    """Return the catalog name of a table: `lake.silver.orders` for `silver/orders` in the catalog `lake`."""
    return table if catalog is None else f"{catalog}.{table.replace('/', '.')}"


@dataclass(frozen=True)
class Layout:
    """Paths of everything in one environment.

    Args:
        root: Storage root without a trailing slash: an absolute local path or a URI.
    """

    root: str

    def table(self, table: str) -> str:
        """Return the Delta table `<zone>/<table>`."""
        return f"{self.root}/tables/{table}"

    def folder(self, path: str) -> str:
        """Return the folder that a pipeline file names: a URI unchanged, or a path below the root."""
        return path if "://" in path else f"{self.root}/{path}"

    def folder_pattern(self, path: str) -> str:
        """Return the pattern of such a folder for Spark, in which only the declared `*` is a pattern."""
        return path if "://" in path else f"{literal_glob(self.root)}/{path}"

    def folder_parts(self, path: str) -> list[str]:
        """Return the parts of a folder that a pipeline file names, in any spelling."""
        return plain_parts(self.folder(path))

    def is_own(self, path: str) -> bool:
        """Return True if a declared folder is the root itself, or a part that Tidemill owns."""
        here, root = self.folder_parts(path), plain_parts(self.root)
        first = here[len(root) : len(root) + 1]
        return here == root[: len(here)] or (here[: len(root)] == root and first[0] in OWN_FOLDERS)

    def aside(self, output: str, pipeline: str) -> str:
        """Return the Delta table of a pipeline's records for one of `ASIDE_OUTPUTS`."""
        return f"{self.root}/{output}/{pipeline}"

    def quarantine(self, pipeline: str) -> str:
        """Return the Delta table of the rejected records of a pipeline."""
        return self.aside(QUARANTINE_OUTPUT, pipeline)

    def late(self, pipeline: str) -> str:
        """Return the Delta table of the late records of a pipeline."""
        return self.aside(LATE_OUTPUT, pipeline)

    def game_day(self, pipeline: str) -> str:
        """Return the root of the copy of a pipeline for drills, which is deleted afterwards."""
        return f"{self.root}/game_days/{pipeline}"

    def shadow(self, pipeline: str) -> str:
        """Return the root of the copy of a pipeline for a shadow run, which is deleted afterwards."""
        return f"{self.root}/shadows/{pipeline}"

    @property
    def states(self) -> str:
        """Return the folder of all state folders, including those of undeclared pipelines."""
        return f"{self.root}/state"

    def state(self, pipeline: str) -> str:
        """Return the folder with all control files and checkpoints of a pipeline."""
        return f"{self.states}/{pipeline}"

    def checkpoint(self, pipeline: str, generation: str) -> str:
        """Return the Spark checkpoint directory of a generation, which only Spark writes."""
        return f"{self.state(pipeline)}/{generation}"

    def current(self, pipeline: str) -> str:
        """Return the folder of the numbered records of the live generation; the newest one counts."""
        return f"{self.state(pipeline)}/current"

    def holds(self, pipeline: str) -> str:
        """Return the folder of the holds that forbid a start."""
        return f"{self.state(pipeline)}/holds"

    def journal(self, pipeline: str) -> str:
        """Return the folder of each operation's plan and progress, one file per request."""
        return f"{self.state(pipeline)}/journal"

    def backups(self, pipeline: str) -> str:
        """Return the folder of the backups, one folder each."""
        return f"{self.state(pipeline)}/backups"

    def trash(self, pipeline: str) -> str:
        """Return the folder of data that was moved instead of deleted, one folder per request."""
        return f"{self.state(pipeline)}/trash"

    def registered_schemas(self, pipeline: str, registry: str) -> str:
        """Return the folder of schemas from one registry; another registry has other numbers for them."""
        return f"{self.state(pipeline)}/schemas/{hashlib.sha256(registry.encode()).hexdigest()[:16]}"

    @property
    def control(self) -> str:
        """Return the file that names the control plane that owns the root."""
        return f"{self.root}/control.json"

    @property
    def reconciliation(self) -> str:
        """Return the file with the results of the newest reconciliation."""
        return f"{self.root}/reconciliation.json"

    @property
    def waiting_tasks(self) -> str:
        """Return the folder with a record of each Airflow task that waits for a bounded run."""
        return f"{self.root}/control/waiting"

    def waiting_task(self, pipeline: str, run_id: str) -> str:
        """Return the record of one waiting task."""
        return f"{self.waiting_tasks}/{pipeline}.{run_id}.json"

    def untold_runs(self, task: str) -> str:
        """Return the file of the bounded runs that an Airflow task has started and not reported yet."""
        return f"{self.root}/control/untold/{task}.json"

    @property
    def audit(self) -> str:
        """Return the folder with one entry per action: requester, reason, before, after."""
        return f"{self.root}/audit"

    def status(self, pipeline: str) -> str:
        """Return the file of the driver's status, written after each batch."""
        return f"{self.state(pipeline)}/status.json"

    def query_report(self, pipeline: str) -> str:
        """Return the file of the driver's report about its streaming query, written every few seconds."""
        return f"{self.state(pipeline)}/query.json"

    def desired(self, pipeline: str) -> str:
        """Return the file of the requested state: running, stopped or suspended."""
        return f"{self.state(pipeline)}/desired.json"

    def models(self, pipeline: str, digest: str) -> str:
        """Return the folder from which Spark reads a Spark model whose files have that digest."""
        return f"{self.state(pipeline)}/models/{digest.removeprefix('sha256:')[:16]}"

    def source_schemas(self, pipeline: str, stream: str) -> str:
        """Return the folder of the numbered versions of the columns in one stream's files."""
        return f"{self.state(pipeline)}/schemas/{stream}"

    def listing(self, pipeline: str, digest: str) -> str:
        """File with the files that a joined folder had, by the digest that ledger entries name."""
        return f"{self.state(pipeline)}/listings/{digest.removeprefix('sha256:')}.json.gz"

    def deleted_files(self, pipeline: str, stream: str) -> str:
        """Return the folder of one stream's files that were deleted after they were read, by request."""
        return f"{self.state(pipeline)}/deleted_files/{stream}"

    def poison(self, pipeline: str, code: str) -> str:
        """Return the folder of the records on which one version of a transform failed, one file each."""
        return f"{self.state(pipeline)}/poison/{code}"

    def epochs(self, pipeline: str) -> str:
        """Return the folder of the epochs that drivers claimed."""
        return f"{self.state(pipeline)}/epochs"

    def receipts(self, pipeline: str) -> str:
        """Return the folder of the receipts of stopped drivers."""
        return f"{self.state(pipeline)}/receipts"

    def parts(self, pipeline: str) -> str:
        """Return the folder of the results of operations' Spark jobs, one file each."""
        return f"{self.state(pipeline)}/parts"

    def stop_note(self, pipeline: str, run_id: str) -> str:
        """Return the note that a bounded run was stopped on request."""
        return f"{self.state(pipeline)}/stops/{run_id}.json"

    def turn(self, pipeline: str) -> str:
        """Return the file with which a backfill makes the pipeline's drivers wait while it commits."""
        return f"{self.state(pipeline)}/turn.json"

    def row_origin(self, pipeline: str, found_in: str) -> str:
        """Return the file of the row origins of a pipeline, by digest of the analysed code."""
        return f"{self.state(pipeline)}/origins/{found_in}.json"

    def meanings(self, pipeline: str, code: str) -> str:
        """Return the file of the meanings of a version's stateful operators, by digest of its code."""
        return f"{self.state(pipeline)}/meanings/{code}.json"

    def backfill(self, pipeline: str, plan: str) -> str:
        """Return the folder with everything about one backfill plan, by its digest."""
        return f"{self.backfills}/{pipeline}-{plan}"

    def backfill_plan(self, pipeline: str, plan: str) -> str:
        """Return the file of the plan."""
        return f"{self.backfill(pipeline, plan)}/plan.json"

    @property
    def backfills(self) -> str:
        """Return the folder of all backfill plans."""
        return f"{self.root}/backfills"

    def backfill_progress(self, pipeline: str, plan: str) -> str:
        """Return the file of the finished chunks."""
        return f"{self.backfill(pipeline, plan)}/progress.json"

    def backfill_status(self, pipeline: str, plan: str) -> str:
        """Return the status file of the driver that carries the plan out."""
        return f"{self.backfill(pipeline, plan)}/status.json"

    def backfill_request(self, pipeline: str, plan: str) -> str:
        """Return the file of the request to publish its staged rows."""
        return f"{self.backfill(pipeline, plan)}/publish.json"

    def backfill_downstream(self, pipeline: str, plan: str) -> str:
        """Return the file of downstream pipelines that have been processed again."""
        return f"{self.backfill(pipeline, plan)}/downstream.json"

    def staged(self, pipeline: str, plan: str) -> str:
        """Return the folder of the staged rows, one folder per attempt."""
        return f"{self.backfill(pipeline, plan)}/staged"

    def staging(self, pipeline: str, plan: str, attempt: str) -> Layout:
        """Return the layout of one attempt's staged rows, which is like a separate root."""
        return Layout(f"{self.staged(pipeline, plan)}/{attempt}")

    def leaving(self, output: str, pipeline: str) -> str:
        """Return the staging table of records that publishing will remove from one of `ASIDE_OUTPUTS`."""
        return f"{self.root}/leaving/{output}/{pipeline}"
