"""Fixtures of the stores; `tests/conftest.py` gives them to every tier.

A test that requests `store_root` (a path) or `store_place` runs on the local disk. In `tests/stores` and
`tests/soak` it also runs on Azurite and an S3 server. With `--stores`, such tests of other tiers run on the
stores that it names, and tests without a store do not run. The servers start with the first test that needs
them, and a missing server is a failure, never a skip.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.store_servers import StoreServer, azurite, s3_server
from tests.support.stores import (
    AZURITE,
    KINDS,
    LOCAL,
    StorePlace,
    azurite_place,
    local_place,
    s3_place,
)
from tidemill.storage.store import Store

# Tiers whose tests run on every store by themselves.
TIERS = {"stores", "soak"}


def add_stores_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stores",
        help=f"run only tests of stores, on these of {', '.join(KINDS)}, or on `all`; tests/stores and "
        "tests/soak always run on all",
    )


def choose_stores(metafunc: pytest.Metafunc) -> None:
    """Generate one test for each store, unless the test names its store."""
    own = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "store_place" not in metafunc.fixturenames or "store_place" in own:
        return
    asked = metafunc.config.getoption("--stores") or LOCAL
    in_tier = is_of_a_store_tier(metafunc.definition)
    kinds = KINDS if in_tier or asked == "all" else tuple(asked.split(","))
    metafunc.parametrize("store_place", kinds, indirect=True)


def has_no_store_to_run_on(item: pytest.Item) -> bool:
    """Return True if `--stores` is set and the test does not use a store."""
    asks = "store_place" in getattr(item, "fixturenames", ())
    return bool(item.config.getoption("--stores")) and not asks and not is_of_a_store_tier(item)


def is_of_a_store_tier(item: pytest.Item) -> bool:
    return not TIERS.isdisjoint(item.path.parts)


@pytest.fixture(scope="session")
def azurite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="session")
def s3_store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def store_place(request: pytest.FixtureRequest, tmp_path: Path) -> StorePlace:
    folder = tmp_path / "store"
    folder.mkdir()
    if request.param == LOCAL:
        place = local_place(folder)
    elif request.param == AZURITE:
        place = azurite_place(request.getfixturevalue("azurite_server"), folder)
    else:
        place = s3_place(request.getfixturevalue("s3_store_server"), folder)
    place.open()
    return place


@pytest.fixture
def store_root(store_place: StorePlace) -> str:
    return store_place.root


@pytest.fixture
def placed_store(store_place: StorePlace) -> Store:
    """Return the store of `store_root`."""
    return store_place.open()
