"""A path finds the access of its root, and a secret is read when a path is used, not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.declared import declared
from tidemill.errors import SpecError
from tidemill.spec.project import Environment
from tidemill.storage.access import access_to, open_storage
from tidemill.storage.object_stores import NO_ACCESS


def environment(folder: Path, root: str, secret: str | None = "k3y") -> Environment:
    keys = {
        "root": root,
        "storage": {"azure": {"account_key": "plant-key"}},
        "secrets": {"folder": "secrets"},
    }
    (folder / "secrets").mkdir(exist_ok=True)
    if secret is not None:
        (folder / "secrets" / "plant-key").write_text(f"{secret}\n")
    return declared(folder, environment=keys).environment


def test_a_path_below_the_root_has_the_roots_access_and_no_other_has(tmp_path: Path) -> None:
    root = "abfss://one@plant.dfs.core.windows.net/tidemill"
    open_storage(environment(tmp_path, root))
    for path in (root, f"{root}/state/orders/status.json"):
        assert access_to(path).options["account_key"] == "k3y"
    for path in (f"{root}-other/x", "abfss://two@plant.dfs.core.windows.net/tidemill", str(tmp_path)):
        assert access_to(path) == NO_ACCESS


def test_of_two_roots_the_inner_one_counts(tmp_path: Path) -> None:
    outer = "abfss://three@plant.dfs.core.windows.net"
    (tmp_path / "inner").mkdir()
    open_storage(environment(tmp_path, outer, "outer"))
    open_storage(environment(tmp_path / "inner", f"{outer}/rehearsal", "inner"))
    assert access_to(f"{outer}/tables/x").options["account_key"] == "outer"
    assert access_to(f"{outer}/rehearsal/tables/x").options["account_key"] == "inner"


def test_a_missing_secret_is_told_when_the_storage_is_used(tmp_path: Path) -> None:
    root = "abfss://four@plant.dfs.core.windows.net"
    open_storage(environment(tmp_path, root, None))
    with pytest.raises(SpecError) as missing:
        access_to(f"{root}/state/x")
    assert missing.value.error_id == "TIDE-SPEC-030"
    assert missing.value.facts["secret"] == "plant-key"


def test_a_local_root_needs_no_access(tmp_path: Path) -> None:
    open_storage(declared(tmp_path).environment)
    assert access_to(f"{tmp_path}/data/state/x") == NO_ACCESS
