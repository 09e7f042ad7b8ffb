"""Write batches as files, each batch once for readers that use Spark's own log of the folder.

Spark's file sink writes the data files of a batch and names them all in one entry of `_spark_metadata`. A
reader that uses the log (Spark, for the whole folder) sees all of a batch or nothing. A reader that lists
files also sees files of a batch in progress, and files that a killed attempt left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import DataError
from tidemill.ledger.files_log import CLAIMS, LOG, Claim
from tidemill.sinks.counted_rows import CountedRows
from tidemill.sinks.empty_partitions import refusing_empty_texts, without_empty_texts
from tidemill.sinks.files_folder import (
    FilesFolder,
    check_folder_is_ours,
    entries_before,
    outdated,
)
from tidemill.spec.column_names import column_named
from tidemill.spec.sinks import FilesSink

# An entry of Spark's log without files: only its version.
_NOTHING = "v1"
_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"
_SPARK = "org.apache.spark.sql.execution"
_FORMATS = {
    "parquet": "parquet.ParquetFileFormat",
    "orc": "orc.OrcFileFormat",
    "json": "json.JsonFileFormat",
    "csv": "csv.CSVFileFormat",
}


def layout_of(sink: FilesSink, columns: Mapping[str, str]) -> str:
    """Return format, partitions and columns, for comparison."""
    named = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return f"{sink.format} by ({', '.join(sink.partition_by)}) of {named}"


def check_columns(rows: DataFrame, sink: FilesSink, path: str) -> None:
    """Raise an error for rows that the format cannot store, and for partitions that are not columns.

    Raises:
        DataError: TIDE-SINK-012.
    """
    names = [name.lower() for name in rows.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    missing = [name for name in sink.partition_by if column_named(name, rows.columns) is None]
    reason = f"there is no column {missing[0]} to partition by" if missing else ""
    if repeated:
        reason = f"two columns are called {repeated[0]}; readers do not tell columns apart by case"
    if not missing and len(sink.partition_by) == len(names):
        reason = "all columns are partitions, so that nothing is left for the files"
    try:
        session: Any = rows.sparkSession
        written = rows.drop(*sink.partition_by)
        utils = getattr(session._jvm, f"{_SPARK}.datasources.DataSourceUtils")
        utils.verifySchema(_format(session, sink), written._jdf.schema(), False)
    except PySparkException as error:
        reason = reason or str(error).strip().partition("\n")[0]
    if reason:
        raise DataError(
            "TIDE-SINK-012",
            "The rows cannot be written as files of this format.",
            facts={"folder": path, "format": sink.format, "reason": reason},
            fix="give the sink a `transform` that flattens the columns or makes them text, or another format",
        )


def claim_folder(spark: SparkSession, path: str, mine: Claim) -> None:
    """Claim a folder for this pipeline; raise an error if it has another owner or its log does not fit.

    1. Read the folder.
    2. Write the claim, and remove obsolete claims.
    3. Read again: if two pipelines claim a folder at once, at least one sees the other.
    4. Before the first batch, make the log begin where the checkpoint is. After a crash, this is repeated.

    Raises:
        GateRefusedError: See `check_folder_is_ours`.
    """
    store = _Folder(spark, path)
    # 1.
    found = store.look()
    check_folder_is_ours(found, mine)
    old = outdated(found, mine)
    if old or all(_identity(claim) != _identity(mine) for claim in found.claims):
        # 2.
        store.write(_place(mine), mine.model_dump_json())
        for claim in old:
            if _identity(claim) != _identity(mine):
                store.remove(_place(claim))
        # 3.
        found = store.look()
        check_folder_is_ours(found, mine)
    # 4.
    began_after = min(claim.after_batch for claim in found.claims)
    if found.newest_batch <= began_after:
        for entry in entries_before(began_after, int(str(spark.conf.get(_INTERVAL)))):
            store.write(f"{LOG}/{entry}", _NOTHING)


def write_files(frame: DataFrame, sink: FilesSink, path: str, batch_id: int) -> int:
    """Write a batch, unless the log has it.

    Returns:
        Number of rows written; 0 if the log has the batch.

    Raises:
        DataError: TIDE-SINK-020.
    """
    session: Any = frame.sparkSession
    jvm = session._jvm
    spark_sink = getattr(jvm, f"{_SPARK}.streaming.sinks.FileStreamSink")(
        session._jsparkSession,
        path,
        _format(session, sink),
        jvm.PythonUtils.toSeq(list(sink.partition_by)),
        jvm.PythonUtils.toScalaMap(dict(sink.options)),
    )
    rows = CountedRows(without_empty_texts(frame, sink.partition_by))
    with refusing_empty_texts(path):
        spark_sink.addBatch(batch_id, rows.frame._jdf)
    return rows.count


def _format(session: Any, sink: FilesSink) -> Any:
    return getattr(session._jvm, f"{_SPARK}.datasources.{_FORMATS[sink.format]}")()


def _identity(claim: Claim) -> str:
    """Return the name of a claim: one for each generation of each pipeline."""
    root = hashlib.sha256(claim.root.encode()).hexdigest()[:16]
    return f"{claim.pipeline}-{claim.generation}-{root}"


def _place(claim: Claim) -> str:
    return f"{CLAIMS}/{_identity(claim)}.json"


class _Folder:
    """A folder, accessed through Hadoop, because perhaps only Spark has the credentials."""

    def __init__(self, spark: Any, path: str) -> None:
        self._jvm = spark._jvm
        self._path = path
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._at("").getFileSystem(conf)

    def look(self) -> FilesFolder:
        """Read the content of the folder."""
        names = self._names("")
        batches = [name.partition(".")[0] for name in self._names(LOG)]
        return FilesFolder(
            self._path,
            self._claims(),
            max((int(name) for name in batches if name.isascii() and name.isdecimal()), default=-1),
            any(not name.startswith(("_", ".")) for name in names),
        )

    def write(self, name: str, text: str) -> None:
        """Write a small file."""
        stream = self._files.create(self._at(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def remove(self, name: str) -> None:
        """Delete a file."""
        self._files.delete(self._at(name), False)

    def _claims(self) -> Sequence[Claim]:
        claims = []
        for name in self._names(CLAIMS):
            if name.startswith(".") or not name.endswith(".json"):
                continue
            stream = self._files.open(self._at(f"{CLAIMS}/{name}"))
            try:
                claims.append(Claim.model_validate_json(bytes(stream.readAllBytes())))
            except ValidationError:
                # Left by a driver that was killed while it wrote the claim, before its first batch. It writes
                # the claim again.
                continue
            finally:
                stream.close()
        return claims

    def _names(self, folder: str) -> list[str]:
        path = self._at(folder)
        found = self._files.listStatus(path) if self._files.exists(path) else []
        return [status.getPath().getName() for status in found]

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}" if name else self._path)
