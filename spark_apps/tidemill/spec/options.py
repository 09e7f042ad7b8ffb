"""Spark's options below `options:`, except those that Tidemill sets itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from tidemill.spec.kafka_options import (
    CONSUMER_OPTIONS,
    PRODUCER_OPTIONS,
    SPARK_SINK_OPTIONS,
    SPARK_SOURCE_OPTIONS,
)
from tidemill.spec.near_key import near_key
from tidemill.spec.text import MAX_EXPRESSION, MAX_NAME

# Options of Delta's writer (`DeltaOptions` of delta-spark 4.4.0), without those that Tidemill sets and those
# that would change a table's columns.
DELTA_SINK_OPTIONS = frozenset(
    {"compression", "maxRecordsPerFile", "optimizeWrite", "parquet.writer.version", "writePartitionColumns"}
)

# Setting one of these manually would break exactly-once, leak a secret or point at another place. In lower
# case, because Spark's option names are case-insensitive.
_OWNED = {
    "checkpointlocation": "derived from the pipeline's name",
    "queryname": "derived from the pipeline's name",
    "txnappid": "written by the Delta sink",
    "txnversion": "written by the Delta sink",
    "usermetadata": "holds the ledger entry",
    "datachange": "written by the Delta sink",
    "replacewhere": "set by a backfill's range",
    "partitionoverwritemode": "set by a backfill's range",
    "overwriteschema": "a table's columns never change silently",
    "path": "write `path:` or `table:` of the source or sink",
    "subscribe": "write `topic:` or `topics:`",
    "subscribepattern": "write `pattern:`",
    "assign": "write `assign:`",
    "includeheaders": "write `headers:`",
    "startingoffsets": "write `starting_offsets:`",
    "endingoffsets": "set by a backfill's range",
    "endingoffsetsbytimestamp": "set by a backfill's range",
    "endingtimestamp": "set by a backfill's range",
    "maxoffsetspertrigger": "write `max_offsets_per_batch:`",
    "maxfilespertrigger": "write `max_files_per_batch:`",
    "latestfirst": "write `order:`",
    "startingversion": "write `starting_version:`",
    "skipchangecommits": "write `changes: skip`",
    "ignorechanges": "write `changes: skip`",
    "ignoredeletes": "write `changes: skip_deletes`",
    "failondataloss": "stays true: losing data is never silent",
    "groupidprefix": "derived from the pipeline's name",
    "topic": "write `topic:`",
    "kafka.bootstrap.servers": "set in the environment",
    "kafka.security.protocol": "set in the environment's `security:`",
    "kafka.sasl.mechanism": "set in the environment's `security:`",
    "kafka.sasl.jaas.config": "made from secrets that the environment names",
    "kafka.ssl.truststore.location": "write `ca_file:`",
    "kafka.ssl.key.password": "a secret has no place in conf",
    "kafka.ssl.keystore.key": "a secret has no place in conf",
    "kafka.ssl.keystore.password": "a secret has no place in conf",
    "kafka.ssl.truststore.password": "a secret has no place in conf",
    "kafka.auto.offset.reset": "write `starting_offsets:`",
    "kafka.isolation.level": "write `isolation:`",
    "kafka.enable.auto.commit": "fixed by Spark: offsets are in the checkpoint",
    "kafka.key.deserializer": "fixed by Spark",
    "kafka.value.deserializer": "fixed by Spark",
    "kafka.key.serializer": "fixed by Spark",
    "kafka.value.serializer": "fixed by Spark",
    "kafka.transactional.id": "Spark's Kafka sink opens no transactions",
}

# Spark would skip files without an error with some of these. Others are unnecessary, because Tidemill decodes
# the files.
_OWNED_OF_FILES = {
    "mode": "write `on_invalid:`",
    "columnnameofcorruptrecord": "broken lines go to the quarantine: write `on_invalid:`",
    "maxfileage": "write `max_file_age:`",
    "maxbytespertrigger": "write `max_bytes_per_batch:`",
    "cleansource": "takes files that backfills and rewinds read again: write `after: archive`",
    "sourcearchivedir": "where files are archived follows from the path: write `after: archive`",
    "ignorecorruptfiles": "stays false: no file is skipped silently",
    "ignoremissingfiles": "stays false: no file is skipped silently",
    "recursivefilelookup": "write `recursive:`",
    "modifiedafter": "Spark knows it in batches only: keep such files in another folder",
    "modifiedbefore": "Spark knows it in batches only: keep such files in another folder",
}

# Kafka's `startingTimestamp` is refused with another fix.
_OWNED_OF_DELTA = {
    "startingtimestamp": "write `starting_at:`",
    "readchangefeed": "write `read_changes:`",
    "readchangedata": "write `read_changes:`",
}
_OWNED_OF_DELTA_SINK = {"mergeschema": "write `schema_evolution: add_columns` at the sink"}
# Expired log entries would hide files from readers.
_OWNED_OF_FILES_SINK = {"retention": "a file that was written stays"}

# Spark prefers these over `startingOffsets`, which a backfill sets.
_OWNED_OF_KAFKA = {
    "startingtimestamp": "write a moment as `starting_offsets:`",
    "startingoffsetsbytimestamp": "write a moment as `starting_offsets:`",
    "startingoffsetsbytimestampstrategy": "a partition without records since the moment starts at its end",
}

# Options by source and sink. A name that occurs in several has different meanings.
OWNED_OPTIONS = (_OWNED, _OWNED_OF_FILES, _OWNED_OF_KAFKA, _OWNED_OF_DELTA, _OWNED_OF_DELTA_SINK)


def check_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return `options` if Tidemill sets none of them itself.

    Raises:
        ValueError: Names each such option and the origin of its value.
    """
    for name, value in options.items():
        if not name.isprintable() or not 0 < len(name) <= MAX_NAME or " " in name:
            raise ValueError(f"an option's name is a word of at most {MAX_NAME} characters")
        if "\x00" in value or len(value) > MAX_EXPRESSION:
            raise ValueError(f"{name}: its value is too long or holds a NUL")
    _check_not_owned(options, _OWNED)
    return options


def check_files_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return `options` if none of them would make Spark skip files or data."""
    _check_not_owned(options, _OWNED_OF_FILES)
    return check_options(options)


def check_delta_source_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return `options` if none of them changes the start of reading or the rows that are read."""
    _check_not_owned(options, _OWNED_OF_DELTA)
    return check_options(options)


def check_files_sink_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return `options` if none of them would hide files from readers."""
    _check_not_owned(options, _OWNED_OF_FILES_SINK)
    return check_options(options)


def check_kafka_source_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return `options` if Spark's Kafka source or a Kafka consumer knows every name."""
    _check_not_owned(options, _OWNED_OF_KAFKA)
    return _check_known(check_options(options), SPARK_SOURCE_OPTIONS, CONSUMER_OPTIONS)


def check_kafka_sink_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return `options` if Spark's Kafka sink or a Kafka producer knows every name."""
    return _check_known(check_options(options), SPARK_SINK_OPTIONS, PRODUCER_OPTIONS)


def check_delta_sink_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return `options` if Delta's writer uses every name."""
    _check_not_owned(options, _OWNED_OF_DELTA_SINK)
    known = {name.lower() for name in DELTA_SINK_OPTIONS}
    for name in check_options(options):
        if name.lower() not in known:
            near = near_key(name, sorted(DELTA_SINK_OPTIONS))
            raise ValueError(
                f"{name}: no option of an append or a replace; Delta would ignore it in silence"
                + (
                    f"; did you mean {near}?"
                    if near
                    else f"; there are {', '.join(sorted(DELTA_SINK_OPTIONS))}"
                )
            )
    return options


def _check_not_owned(options: Mapping[str, str], owned: Mapping[str, str]) -> None:
    found = [f"{name} ({owned[name.lower()]})" for name in options if name.lower() in owned]
    if found:
        raise ValueError("the platform owns " + ", ".join(found))


def _check_known(
    options: Mapping[str, str], spark: frozenset[str], client: frozenset[str]
) -> Mapping[str, str]:
    # Spark's names are case-insensitive, but it passes `kafka.…` names to the client unchanged.
    of_spark = {name.lower() for name in spark}
    of_client = {f"kafka.{name}" for name in client}
    for name in options:
        if name in of_client or name.lower() in of_spark:
            continue
        owned = {**_OWNED, **_OWNED_OF_KAFKA}
        usable = [known for known in sorted(spark | of_client) if known.lower() not in owned]
        near = near_key(name, usable)
        raise ValueError(
            f"{name}: no option of Spark for Kafka, nor (with `kafka.`) of its client; both would ignore it "
            "in silence" + (f"; did you mean {near}?" if near else "")
        )
    return options


def _as_text(options: object) -> object:
    """Convert values to text as Spark needs it, because YAML also has numbers and booleans."""
    if not isinstance(options, Mapping):
        return options
    nested = [str(name) for name, value in options.items() if not isinstance(value, str | int | float)]
    if nested:
        raise ValueError(f"an option's value is text, a number, true or false: {nested[0][:MAX_NAME]}")
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }


_JSON_SCHEMA = WithJsonSchema(
    {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
)

Options = Annotated[dict[str, str], BeforeValidator(_as_text), AfterValidator(check_options), _JSON_SCHEMA]
DeltaSinkOptions = Annotated[
    dict[str, str], BeforeValidator(_as_text), AfterValidator(check_delta_sink_options), _JSON_SCHEMA
]
DeltaSourceOptions = Annotated[
    dict[str, str], BeforeValidator(_as_text), AfterValidator(check_delta_source_options), _JSON_SCHEMA
]
FilesOptions = Annotated[
    dict[str, str], BeforeValidator(_as_text), AfterValidator(check_files_options), _JSON_SCHEMA
]
FilesSinkOptions = Annotated[
    dict[str, str], BeforeValidator(_as_text), AfterValidator(check_files_sink_options), _JSON_SCHEMA
]
KafkaSourceOptions = Annotated[
    dict[str, str], BeforeValidator(_as_text), AfterValidator(check_kafka_source_options), _JSON_SCHEMA
]
KafkaSinkOptions = Annotated[
    dict[str, str], BeforeValidator(_as_text), AfterValidator(check_kafka_sink_options), _JSON_SCHEMA
]
