from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.support.conf_project import ConfProject
from tidemill.sources.kafka_clients import kafka_client
from tidemill.spec.kafka_options import CONSUMER_OPTIONS, PRODUCER_OPTIONS
from tidemill.spec.options import (
    check_delta_sink_options,
    check_files_options,
    check_kafka_sink_options,
    check_kafka_source_options,
    check_options,
)

Check = Callable[[Mapping[str, str]], Mapping[str, str]]


@pytest.mark.parametrize(
    "name",
    [
        "checkpointLocation",
        "CHECKPOINTLOCATION",
        "txnAppId",
        "txnVersion",
        "userMetadata",
        "path",
        "replaceWhere",
        "failOnDataLoss",
        "startingOffsets",
        "endingTimestamp",
        "kafka.bootstrap.servers",
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.password",
        "kafka.auto.offset.reset",
        "kafka.transactional.id",
        "kafka.isolation.level",
    ],
)
@pytest.mark.parametrize("check", [check_options, check_kafka_source_options, check_kafka_sink_options])
def test_an_option_that_the_platform_owns_is_refused_with_the_way_to_say_it(check: Check, name: str) -> None:
    with pytest.raises(ValueError, match=r"the platform owns .* \(.+\)"):
        check({name: "x"})


@pytest.mark.parametrize(
    "name", ["startingTimestamp", "startingOffsetsByTimestamp", "STARTINGOFFSETSBYTIMESTAMPSTRATEGY"]
)
def test_options_that_outrank_planned_offsets_are_refused_for_a_moment(name: str) -> None:
    with pytest.raises(ValueError, match=r"the platform owns .* \(.+\)"):
        check_kafka_source_options({name: "1700000000000"})
    # Delta's source has a word of the same name.
    assert check_options({"startingTimestamp": "2026-01-01"}) == {"startingTimestamp": "2026-01-01"}


@pytest.mark.parametrize(
    "name", ["sep", "encoding", "quote", "primitivesAsString", "pathGlobFilter", "wholetext", "lineSep"]
)
def test_options_of_the_formats_pass(name: str) -> None:
    assert check_files_options({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("name", ["mergeSchema", "maxBytesPerTrigger", "cleanSource", "multiLine"])
def test_other_options_of_spark_pass(name: str) -> None:
    assert check_options({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "name", ["minPartitions", "minpartitions", "kafka.fetch.max.bytes", "kafka.group.id"]
)
def test_known_options_of_the_kafka_source_pass(name: str) -> None:
    assert check_kafka_source_options({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("check", "name", "near"),
    [
        (check_kafka_source_options, "kafka.fetch.max.byte", "kafka.fetch.max.bytes"),
        (check_kafka_source_options, "fetch.max.bytes", "kafka.fetch.max.bytes"),
        (check_kafka_source_options, "kafka.Fetch.max.bytes", "kafka.fetch.max.bytes"),
        (check_kafka_source_options, "minPartition", "minPartitions"),
        (check_kafka_sink_options, "kafka.ack", "kafka.acks"),
        (check_kafka_sink_options, "kafka.linger", "kafka.linger.ms"),
    ],
)
def test_an_option_that_kafka_would_ignore_in_silence_is_refused(check: Check, name: str, near: str) -> None:
    with pytest.raises(ValueError, match=rf"in silence; did you mean {near}\?"):
        check({name: "1"})


def test_a_producer_has_no_options_of_a_consumer() -> None:
    assert "acks" in PRODUCER_OPTIONS - CONSUMER_OPTIONS
    assert "fetch.max.bytes" in CONSUMER_OPTIONS - PRODUCER_OPTIONS
    with pytest.raises(ValueError, match="in silence"):
        check_kafka_sink_options({"kafka.fetch.max.bytes": "1"})


@pytest.mark.parametrize(
    "name",
    [
        *("mode", "columnNameOfCorruptRecord", "maxFileAge", "ignoreCorruptFiles", "ignoreMissingFiles"),
        *("cleanSource", "sourceArchiveDir", "maxBytesPerTrigger"),
    ],
)
def test_options_by_which_spark_would_lose_a_part_of_the_files_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"the platform owns .* \(.+\)"):
        check_files_options({name: "x"})


@pytest.mark.parametrize("name", ["maxRecordsPerFile", "maxrecordsperfile", "optimizeWrite", "compression"])
def test_options_of_deltas_writer_pass(name: str) -> None:
    assert check_delta_sink_options({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("maxRecordPerFile", r"did you mean maxRecordsPerFile\?"),
        ("mergeSchema", "`schema_evolution: add_columns`"),
        ("maxFilesPerTrigger", "the platform owns"),
    ],
)
def test_an_option_that_deltas_writer_would_ignore_in_silence_is_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_delta_sink_options({name: "1"})


def test_a_merge_has_no_options_because_it_would_ignore_them(project: ConfProject) -> None:
    sink = "{table: bronze/orders, mode: merge, key: [id], options: {maxRecordsPerFile: 5}}"
    project.replace("{table: bronze/orders}", sink)
    error = project.refusal()
    assert (error.error_id, error.facts["key"]) == ("TIDE-SPEC-003", "sinks[0].delta")
    assert "a merge would ignore `options`" in error.problem


@pytest.mark.parametrize("given", [None, "read_uncommitted"])
def test_what_is_read_of_transactions_is_a_key_of_its_own(project: ConfProject, given: str | None) -> None:
    if given is not None:
        project.replace("topic: orders", f"topic: orders\n    isolation: {given}")
    client = kafka_client(project.resolve())
    assert client.spark_options()["kafka.isolation.level"] == (given or "read_committed")


def test_numbers_and_truth_become_the_texts_that_spark_reads(project: ConfProject) -> None:
    project.replace(
        "topic: orders", "topic: orders\n    options: {minPartitions: 8, kafka.check.crcs: false}"
    )
    assert project.resolve().spec.source.chosen.options == {"minPartitions": "8", "kafka.check.crcs": "false"}


@pytest.mark.parametrize("value", ["{a: 1}", "[1]", ""])
def test_an_option_without_a_plain_value_is_refused(project: ConfProject, value: str) -> None:
    project.replace("topic: orders", f"topic: orders\n    options: {{minPartitions: {value}}}")
    error = project.refusal()
    assert error.facts["key"] == "source.kafka.options"


@pytest.mark.parametrize("options", [{"a b": "1"}, {"": "1"}, {"x" * 101: "1"}, {"a\n": "1"}, {"a": "\x00"}])
def test_a_hostile_option_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"option's name|NUL"):
        check_options(options)
