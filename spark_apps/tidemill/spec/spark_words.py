"""Names from Spark, Databricks and Azure's connector that are not keys here, with their replacements."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tidemill.spec.files_source import OPTIONS_BY_FORMAT
from tidemill.spec.kafka_options import CONSUMER_OPTIONS, PRODUCER_OPTIONS, SPARK_SOURCE_OPTIONS
from tidemill.spec.options import DELTA_SINK_OPTIONS, OWNED_OPTIONS

_SINKS = "write it under `sinks`, e.g. `- delta: {table: bronze/orders}`"
_EXPECT = "write `expectations: {plausible: {expect: amount > 0, on_violation: drop}}` at the table"

# Spark's words in lower case and without underscores, in addition to the options that `options.py` knows.
_INSTEAD: Mapping[str, str] = {
    # Readers and writers.
    **dict.fromkeys(
        ("format", "readstream", "load"), "name the source by its key: `kafka: {…}`, `files: {…}`…"
    ),
    **dict.fromkeys(("writestream", "totable", "saveastable", "foreachbatch", "foreach"), _SINKS),
    "table": _SINKS,
    "outputmode": "write `mode:` at the sink: append, merge (Spark's update, into a table) or replace (its "
    "complete)",
    "truncate": "remove it: the console shows whole values",
    "numrows": "write `rows:`",
    "withwatermark": "write `event_time: {column: timestamp, watermark: 10 minutes}`",
    "watermark": "write `event_time: {column: timestamp, watermark: 10 minutes}`",
    "checkpoint": "remove it: derived from the pipeline's name",
    # Triggers.
    **dict.fromkeys(("processingtime", "triggerinterval"), "write `run: {trigger: 10 seconds}`"),
    **dict.fromkeys(("availablenow", "triggeravailablenow"), "write `run: {mode: incremental}`"),
    "once": "write `run: {mode: incremental, trigger: once}`",
    "continuous": "write `run: {trigger: {continuous: 1 second}}`",
    "realtime": "write `run: {trigger: {real_time: 5 minutes}}`",
    "spark.sql.shuffle.partitions": "write `run: {shuffle_partitions: 2}`",
    # Auto Loader.
    "cloudfiles": "write `files: {path: …, format: json, schema_evolution: add_columns}`",
    "schemalocation": "remove it: inferred columns are kept with the pipeline's state",
    "inferschema": "write `schema_evolution:`",
    "infercolumntypes": "write `schema_evolution:`",
    "schemaevolutionmode": "write `schema_evolution:`",
    "rescueddatacolumn": "remove it: with `schema_evolution` the column is `_rescued_data`",
    "usenotifications": "remove it: new files are found by listing the folder",
    # Databricks pipelines.
    **dict.fromkeys(("expect", "expectall", "expectordrop", "expectorfail", "expectallordrop"), _EXPECT),
    **dict.fromkeys(("keys", "applychangeskeys"), "write `key:`"),
    "sequenceby": "write `cdc: {sequence_by: …}`",
    "applyasdeletes": "write `cdc: {apply_as_deletes: …}`",
    "exceptcolumnlist": "write `cdc: {except_columns: […]}`",
    "storedasscdtype": "write `mode: scd1` or `mode: scd2`",
    # Azure's connector for Event Hubs.
    "eventhubs.connectionstring": "write `auth: {connection_string: NAME}` with the name of a secret",
    "eventhubs.consumergroup": "remove it: no consumer group is needed",
    "consumergroup": "remove it: no consumer group is needed",
    "eventhubs.startingposition": "write `starting_offsets:`",
    "eventhubs.maxeventspertrigger": "write `max_offsets_per_batch:`",
}
# Names that are too common to always mean Spark's option.
_AMBIGUOUS = frozenset(("mode", "path", "topic", "assign"))

_OPTIONS = {
    name.lower()
    for names in (
        *OPTIONS_BY_FORMAT.values(),
        SPARK_SOURCE_OPTIONS,
        DELTA_SINK_OPTIONS,
        (f"kafka.{name}" for name in CONSUMER_OPTIONS | PRODUCER_OPTIONS),
        ("pathGlobFilter",),
    )
    for name in names
}


def snake_case(key: str) -> str:
    """Write `startingOffsets` as `starting_offsets`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def instead_of(key: str, keys: Collection[str]) -> str | None:
    """Return the replacement of an unknown key that is another system's name; None for other keys.

    Args:
        key: The key in the file.
        keys: Valid keys at this place.
    """
    word = key.lower().removeprefix("cloudfiles.")
    found = [*_owned(word, keys), *_owned(word.replace("_", ""), keys)]
    if not found and word in _OPTIONS and "options" in keys:
        return f"write it below `options`: `options: {{{key}: …}}`"
    return next(iter(found), None) or _INSTEAD.get(word) or _INSTEAD.get(word.replace("_", ""))


def _owned(word: str, keys: Collection[str]) -> list[str]:
    """Return hints for an option that Tidemill sets, first those that name a key valid at this place."""
    hints = [owned[word] for owned in OWNED_OPTIONS if word in owned and word not in _AMBIGUOUS]
    hints.sort(key=lambda hint: not any(f"`{key}:" in hint for key in keys))
    return [hint if hint.startswith("write ") else f"remove it: {hint}" for hint in hints]
