from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.dev.java import java_tool
from tidemill.errors import UsageError


def program(folder: Path) -> Path:
    folder.mkdir(parents=True)
    file = folder / "java"
    file.touch(mode=0o700)
    return file


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path, in_home = program(tmp_path / "path"), program(tmp_path / "home" / "bin")
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java_tool("java") == str(on_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java_tool("java") == str(in_home)


def test_a_missing_java_says_where_we_looked_and_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError) as refused:
        java_tool("java")
    assert refused.value.error_id == "TIDE-DEV-001"
    assert refused.value.facts["JAVA_HOME"] == str(tmp_path)
    assert "apt-get install" in refused.value.fix
