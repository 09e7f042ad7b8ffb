"""Jars are found where set-up or an image put them, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.errors import SpecError
from tidemill.jars import JARS_VARIABLE, broker_jars, spark_jars


def test_the_folder_named_by_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark").mkdir()
    for name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / "spark" / name).touch()
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    assert spark_jars() == [tmp_path / "spark" / "a.jar", tmp_path / "spark" / "b.jar"]


def test_the_checkout_has_the_jars_that_set_up_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    assert "tidemill-jvm.jar" in {jar.name for jar in spark_jars()}
    assert "kafka_2.13-3.9.1.jar" in {jar.name for jar in broker_jars()}


def test_missing_jars_say_where_they_were_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    with pytest.raises(SpecError) as refused:
        broker_jars()
    assert refused.value.error_id == "TIDE-JARS-001"
    assert refused.value.facts["looked_in"] == tmp_path / "broker"
    assert "make setup" in refused.value.fix
