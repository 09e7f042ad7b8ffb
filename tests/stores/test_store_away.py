"""A store that is away, denies access or lacks the container: the error's class says who must act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.store_servers import StoreServer, azurite, s3_server
from tests.support.stores import StorePlace, azurite_place, s3_place
from tidemill.engine.classify import classify
from tidemill.errors import SpecError, TidemillError, UnavailableError
from tidemill.ledger.read import open_table
from tidemill.storage.store import Store

SERVERS = {"azurite": (azurite, azurite_place), "s3": (s3_server, s3_place)}


def told(act: Callable[[], object]) -> TidemillError:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever the clients raise
        act()
    return classify(caught.value)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_store_that_does_not_answer_is_waited_for(kind: str, tmp_path: Path) -> None:
    serve, place_on = SERVERS[kind]
    for folder in ("server", "client"):
        (tmp_path / folder).mkdir()
    with serve(tmp_path / "server") as server:
        store = place_on(server, tmp_path / "client").open()
    for act in (
        lambda: store.list_names(f"{store.root}/state"),
        lambda: store.create(f"{store.root}/state/epochs/1", b""),
        lambda: open_table(f"{store.root}/tables/bronze/orders"),
    ):
        error = told(act)
        assert (type(error), error.error_id) == (UnavailableError, "TIDE-STOR-004")
        assert error.runbook == "storage-unavailable"


def elsewhere(place: StorePlace) -> Store:
    """Return the same place in a container that does not exist."""
    keys = {**place.keys, "root": str(place.keys["root"]).replace("lake-", "no-lake-")}
    return replace(place, keys=keys).open()


@pytest.mark.parametrize("store_place", ["azurite", "s3"], indirect=True)
def test_a_missing_container_is_a_mistake_in_conf(store_place: StorePlace) -> None:
    store = elsewhere(store_place)
    for act in (
        lambda: store.list_names(f"{store.root}/state"),
        lambda: store.create(f"{store.root}/state/epochs/1", b""),
    ):
        assert (type(told(act)), told(act).error_id) == (SpecError, "TIDE-STOR-005")


def test_a_wrong_key_is_a_mistake_in_conf(azurite_server: StoreServer, tmp_path: Path) -> None:
    place = azurite_place(azurite_server, tmp_path)
    (tmp_path / "secrets" / "azure-key").write_text("d3Jvbmc=")
    store = place.open()
    for act in (
        lambda: store.list_names(f"{store.root}/state"),
        lambda: store.read(f"{store.root}/state/orders/status.json"),
        lambda: open_table(f"{store.root}/tables/bronze/orders"),
    ):
        error = told(act)
        assert (type(error), error.error_id) == (SpecError, "TIDE-STOR-005")
        assert "d3Jvbmc=" not in str(error)
