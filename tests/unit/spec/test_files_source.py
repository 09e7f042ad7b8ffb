"""Wrong files sources: each is refused with its key and the reason."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject
from tidemill.cli.pipeline_check import check_pipeline
from tidemill.errors import SpecError

KAFKA = "kafka:\n    topic: orders\npayload:\n  json: {schema: order.json}\n"


@pytest.mark.parametrize(
    ("keys", "key", "says"),
    [
        *(
            (f"format: {kind}", "source.files", f"a stream cannot infer the columns of {kind} files")
            for kind in ("avro", "csv", "json", "orc", "parquet")
        ),
        ("format: xml", "source.files.format", "avro"),
        (
            "format: json, schema: order_id long customer strin",
            "source.files.schema",
            "orders.yaml:5  source.files.schema: after 'order_id long', expected `,`",
        ),
        ("format: json, schema: a strin", "source.files.schema", "did you mean string?"),
        ("format: orc, schema: 'a decimal(50,2)'", "source.files.schema", "1 to 38 digits"),
        (
            "format: csv, schema_evolution: rescue, schema_hints: a timestmp",
            "source.files.schema_hints",
            "did you mean timestamp?",
        ),
        ("format: text, max_bytes_per_batch: 0", "source.files.max_bytes_per_batch", "greater than 0"),
        (
            "format: text, max_bytes_per_batch: 1g, max_files_per_batch: 1",
            "source.files",
            "remove one of max_files_per_batch and max_bytes_per_batch",
        ),
        (
            "format: text, max_bytes_per_batch: 1g, order: newest, max_file_age: 1 day",
            "source.files",
            "Spark ignores `max_file_age` where `order: newest` and `max_bytes_per_batch` are set",
        ),
        ("format: json", "source.files", "or set `schema_evolution`, which discovers them"),
        (
            "format: orc, schema_evolution: rescue",
            "source.files",
            "`schema_evolution` is for json and csv files",
        ),
        (
            'format: csv, schema_evolution: rescue, options: {Header: "false"}',
            "source.files",
            "by the names in their headers",
        ),
        (
            "format: csv, schema_evolution: rescue, options: {sep: ab}",
            "source.files",
            "`options.sep` is one character",
        ),
        (
            'format: csv, schema_evolution: rescue, options: {multiLine: "true"}',
            "source.files",
            "there are pathGlobFilter, header, sep, delimiter",
        ),
        (
            "format: json, schema: id long, schema_evolution: rescue",
            "source.files",
            "`schema` fixes the columns and `schema_evolution` discovers them",
        ),
        ("format: text, schema_hints: id long", "source.files", "`schema_hints` needs `schema_evolution`"),
        ("format: json, schema_evolution: addNewColumns", "source.files.schema_evolution", "add_columns"),
        (
            "format: json, schema_evolution: rescue, options: {dateFormat: yyyy}",
            "source.files",
            "`options.dateFormat` is not an option here",
        ),
        ("format: text, options: {cleanSource: delete}", "source.files.options", "write `after: archive`"),
        (
            "format: text, options: {modifiedAfter: x}",
            "source.files.options",
            "Spark knows it in batches only",
        ),
    ],
)
def test_a_wrong_files_source_is_refused_with_its_key(
    project: ConfProject, keys: str, key: str, says: str
) -> None:
    project.replace(KAFKA, "files: {path: landing, " + keys + "}\n")
    error = project.refusal()
    assert (error.error_id, error.facts["key"]) == ("TIDE-SPEC-003", key)
    assert says in error.problem


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("Stamm [[]1]", "`[` is within `[…]`. Write `?`"),
        ("Stamm [1/2]", "`/` is within `[…]`"),
        ("Stamm [1", "`[` has no `]`"),
        ("{a,b", "`{` has no `}`"),
        ("a[z-a]", "bad character range"),
        ("a[]", "unterminated character set"),
    ],
)
def test_wildcards_that_hadoop_cannot_read_are_refused(project: ConfProject, path: str, says: str) -> None:
    project.replace(KAFKA, f"files: {{path: '{path}', format: text}}\n")
    error = project.refusal()
    assert (error.error_id, error.facts["key"]) == ("TIDE-SPEC-003", "source.files.path")
    assert says in error.problem


DISCOVERING = "files: {path: landing, format: json, schema_evolution: add_columns"


def test_new_columns_of_files_need_a_table_that_takes_them(project: ConfProject) -> None:
    project.replace(KAFKA, DISCOVERING + "}\n")
    error = project.refusal()
    assert (error.error_id, error.facts["table"]) == ("TIDE-MODE-024", "bronze/orders")


@pytest.mark.parametrize(
    ("hints", "error_id", "fact", "says"),
    [
        ("", "TIDE-SPEC-026", "column", "at"),
        (", schema_hints: at string", "TIDE-SPEC-026", "column", "at"),
        (", schema_hints: at int", "TIDE-SPEC-034", "reason", "use long"),
    ],
)
def test_the_event_time_of_files_whose_columns_are_discovered_is_hinted_at(
    project: ConfProject, hints: str, error_id: str, fact: str, says: str
) -> None:
    project.replace(KAFKA, DISCOVERING.replace("add_columns", "rescue") + hints + "}\n")
    with pytest.raises(SpecError) as refused:
        check_pipeline(project.load(), "orders")
    assert refused.value.error_id == error_id
    assert says in str(refused.value.facts[fact])
    project.replace(KAFKA, DISCOVERING.replace("add_columns", "rescue") + ", schema_hints: at timestamp}\n")
    assert check_pipeline(project.load(), "orders").spec.source.files is not None
