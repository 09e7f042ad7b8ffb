from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tidemill.control.local.process_identity import ProcessIdentity
from tidemill.dev.broker_process import BrokerProcess, find_broker, last_broker, record_broker
from tidemill.errors import UsageError

LISTENERS = {"PLAINTEXT": "127.0.0.1:20000"}


def test_an_empty_folder_has_no_broker(tmp_path: Path) -> None:
    assert find_broker(tmp_path) is None
    assert last_broker(tmp_path) is None


def test_a_recorded_process_that_runs_is_found(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, ProcessIdentity.of(os.getpid()), LISTENERS)
    record_broker(broker)
    assert find_broker(tmp_path) == broker
    assert broker.bootstrap_servers == "127.0.0.1:20000"


def test_a_process_that_only_has_the_recorded_pid_is_not_the_broker(tmp_path: Path) -> None:
    earlier = dataclasses.replace(ProcessIdentity.of(os.getpid()), start_time=1)
    record_broker(BrokerProcess(tmp_path, earlier, LISTENERS))
    assert find_broker(tmp_path) is None
    assert last_broker(tmp_path) is not None


@pytest.mark.parametrize("text", ["", "{}", '{"process": {"pid": 1}, "listeners": {}}', "[]"])
def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "broker.json").write_text(text)
    with pytest.raises(UsageError) as refused:
        find_broker(tmp_path)
    assert refused.value.error_id == "TIDE-DEV-005"
    assert refused.value.facts["file"] == tmp_path / "broker.json"
