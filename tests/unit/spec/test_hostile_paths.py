"""No text of a conf file leads out of the folder that it names a part of."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.conf_project import ConfProject
from tidemill.spec.location import check_folder, check_root

HOSTILE = [
    "../../etc/passwd",
    "..",
    "a/../../b",
    "/etc/passwd",
    "~root",
    "a\nb",
    "a\x00b",
    "\x1b[2J",
    "a" * 10_000,
    "\u2025/x",
    "\uff0e\uff0e/x",
    "%2e%2e/x",
    "%252e%252e/x",
    "..\\x",
    "a\u202eb",
    "",
]

FIELDS = {
    "source.kafka.topic": ("topic: orders", "topic: {}"),
    "payload.json.schema": ("{schema: order.json}", "{{schema: {}}}"),
    "transform": ("sinks:", "transform: {}\nsinks:"),
    "sinks[0].delta.table": ("{table: bronze/orders}", "{{table: {}}}"),
    "event_time.column": ("column: at,", "column: {},"),
    "run.size": ("trigger: 5 seconds", "size: {}"),
}


def quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(c):08x}" for c in text) + '"'


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("key", ["payload.json.schema", "transform", "sinks[0].delta.table", "run.size"])
def test_a_hostile_name_is_refused_at_its_key(project: ConfProject, key: str, text: str) -> None:
    old, new = FIELDS[key]
    project.replace(old, new.format(quoted(text)))
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-003"
    assert error.facts["key"] == key
    assert len(str(error)) < 1_000


@pytest.mark.parametrize("text", ["a\nb", "a\x00b", "\x1b[2J", "a" * 10_000, ""])
@pytest.mark.parametrize("key", FIELDS)
def test_no_name_holds_control_characters_or_is_endless(project: ConfProject, key: str, text: str) -> None:
    old, new = FIELDS[key]
    project.replace(old, new.format(quoted(text)))
    assert project.refusal().facts["key"] == key


def test_a_hostile_key_does_not_flood_or_steer_the_terminal(project: ConfProject) -> None:
    project.replace("owner: tests", f"owner: tests\n{quoted(chr(27) + '[2J' + 'x' * 5000)}: 1")
    shown = str(project.refusal())
    assert "\x1b" not in shown
    assert len(shown) < 1_000


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_folder_is_refused(project: ConfProject, text: str) -> None:
    project.write(
        "conf/pipelines/orders.yaml",
        "description: x\nowner: x\nsinks: [{delta: {table: bronze/x}}]\n"
        f"source: {{files: {{path: {quoted(text)}, format: text}}}}\n",
    )
    assert project.refusal().facts["key"] == "source.files.path"


@pytest.mark.parametrize(
    "path",
    [
        "landing/x",
        "landing/*/x",
        "a..b/x",
        "file:///data/x",
        "abfss://c@a.dfs.core.windows.net/x",
        "s3a://b/x",
    ],
)
def test_a_folder_below_the_root_or_a_uri_is_accepted(path: str) -> None:
    assert check_folder(path) == path


@pytest.mark.parametrize(
    "root", [".data", "../shared", "/lake", "abfss://c@a.dfs.core.windows.net/x", "s3://b/x"]
)
def test_the_operator_chooses_the_root(root: str) -> None:
    assert check_root(root) == root


@given(st.text(alphabet="./%2eE\\~ax:\u2024\uff0e", max_size=30))
@example("a/..")
@example("file://x/%2E%2e/y")
def test_no_accepted_folder_climbs(path: str) -> None:
    try:
        accepted = check_folder(path)
    except ValueError:
        return
    assert ".." not in accepted.split("/")
    assert not accepted.startswith("/")


@pytest.mark.parametrize("name", ["../orders", "orders/../orders", "ORDERS", "a" * 5_000, "\x00", ""])
def test_a_hostile_pipeline_name_reaches_no_file(project: ConfProject, name: str) -> None:
    assert project.refusal(name).error_id == "TIDE-SPEC-010"
