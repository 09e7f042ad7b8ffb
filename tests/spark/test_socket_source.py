"""Lines from a socket are counted on the console and in memory. Each start begins from zero."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.lake import Lake, LakePipeline
from tests.support.line_server import LineServer, line_server
from tests.support.running_stream import running_stream
from tidemill.checkpoint.current import read_history
from tidemill.engine.classify import classify
from tidemill.errors import UnavailableError


def word_count(lake: Lake, port: int) -> LakePipeline:
    """Return the repository's own, on another port, with a second sink that a test can look into."""
    pipeline = lake.copy_pipeline("socket_word_count")
    file = lake.folder / "conf/pipelines/socket_word_count.yaml"
    declared = yaml.safe_load(file.read_text())
    declared["source"]["socket"] = {"host": "localhost", "port": port}
    declared["sinks"].append({"memory": {"name": "words"}})
    declared["run"] |= {"trigger": "0 seconds", "shuffle_partitions": 1}
    file.write_text(yaml.safe_dump(declared))
    return pipeline


def counts(lake: Lake) -> dict[str, int]:
    if not lake.spark.catalog.tableExists("words"):
        return {}
    return {row["word"]: row["occurrences"] for row in lake.spark.sql("SELECT * FROM words").collect()}


def run_with(lake: Lake, server: LineServer, lines: list[str], counted: dict[str, int]) -> int | None:
    """Run the stream until lines are counted; returns its last batch."""
    with running_stream(word_count(lake, server.port)) as stream:
        server.accept()
        server.send(*lines)
        stream.wait_until(lambda: counts(lake) == counted, f"{counted}")
        return stream.drain().status.batch_id


@pytest.mark.soak
def test_words_of_a_socket_are_counted_and_each_start_begins_anew(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    with line_server() as server:
        run_with(lake, server, ["to be", "or not to be"], {"to": 2, "be": 2, "or": 1, "not": 1})
        shown = re.findall(r"\|(\w+) *\|(\d) ", capsys.readouterr().out)
        assert set(shown[-4:]) == {("to", "2"), ("be", "2"), ("or", "1"), ("not", "1")}
        # With the old checkpoint, Spark would drop lines or fail, because its socket source counts from zero.
        assert run_with(lake, server, ["be"], {"be": 1}) in (0, 1)
    layout = word_count(lake, 1).resolved.layout
    history = read_history(lake.store, layout, "socket_word_count")
    assert [(record.number, record.generation) for record in history] == [(2, "g0002"), (1, "g0001")]


def test_a_socket_without_a_server_is_unavailable(lake: Lake) -> None:
    with line_server() as server:
        port = server.port
    pipeline = word_count(lake, port)
    with pytest.raises(Exception) as failed, running_stream(pipeline) as stream:  # noqa: PT011  # Spark's own
        stream.wait_until(lambda: False, "the start fails")
    error = classify(failed.value)
    assert isinstance(error, UnavailableError)
    assert error.error_id == "TIDE-SRC-007"
