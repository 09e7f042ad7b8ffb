"""Storage roots on every kind of store, for tests that must hold on all of them.

`store_root` is the root's path, reachable in this process; `store_place` can also be opened in other
processes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import itertools
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.store_servers import (
    AZURITE_ACCOUNT,
    AZURITE_KEY,
    S3_ACCESS_KEY,
    S3_SECRET_KEY,
    StoreServer,
)
from tidemill.ledger.read import open_table
from tidemill.spec.environment import EnvironmentSpec
from tidemill.spec.project import Environment
from tidemill.spec.project_folder import Project
from tidemill.storage.access import open_storage
from tidemill.storage.store import Store

LOCAL, AZURITE, S3 = "local", "azurite", "s3"
KINDS = (LOCAL, AZURITE, S3)

_NUMBERS = itertools.count(1)
_OPENED: dict[str, Store] = {}


@dataclass(frozen=True)
class StorePlace:
    """One empty storage root. Can be sent to another process, which opens it for itself.

    Args:
        kind: local, azurite or s3.
        folder: Folder on this machine for the secrets.
        keys: Keys of the environment file: root, storage, secrets.
    """

    kind: str
    folder: Path
    keys: Mapping[str, Any]

    @property
    def environment(self) -> Environment:
        spec = EnvironmentSpec.model_validate(dict(self.keys))
        return Environment("tests", self.folder / "tests.yaml", spec, Project(self.folder))

    @property
    def root(self) -> str:
        return self.environment.layout.root

    def open(self) -> Store:
        """Make the root reachable from this process; once, because each client has its own connections."""
        if self.root not in _OPENED:
            open_storage(self.environment)
            _OPENED[self.root] = Store(self.root)
        return _OPENED[self.root]

    def ids(self, table: str, column: str = "id") -> list[int]:
        """Return one column of all rows of the table's newest version, sorted."""
        store = self.open()
        found = open_table(table)
        assert found is not None
        # Avoid `to_pyarrow_table`: its threads can abort the process at exit (pyarrow 26 with deltalake 1.6).
        names = pa.table(found.get_add_actions(flatten=True)).column("path").to_pylist()
        files = [store.read(f"{table}/{name}") or b"" for name in names]
        return sorted(id_ for file in files for id_ in pq.read_table(io.BytesIO(file))[column].to_pylist())


def local_place(folder: Path) -> StorePlace:
    return StorePlace(LOCAL, folder, {"root": str(folder / "lake")})


def azurite_place(server: StoreServer, folder: Path) -> StorePlace:
    container = f"lake-{next(_NUMBERS)}"
    make_container(server.endpoint, container)
    _write_secrets(folder, {"azure-key": AZURITE_KEY})
    return StorePlace(
        AZURITE,
        folder,
        {
            "root": f"abfs://{container}@{AZURITE_ACCOUNT}.dfs.core.windows.net/lake",
            "storage": {"azure": {"account_key": "azure-key", "endpoint": server.endpoint}},
            "secrets": {"folder": str(folder / "secrets")},
        },
    )


def s3_place(server: StoreServer, folder: Path) -> StorePlace:
    bucket = f"lake-{next(_NUMBERS)}"
    (server.folder / bucket).mkdir()
    _write_secrets(folder, {"s3-access": S3_ACCESS_KEY, "s3-secret": S3_SECRET_KEY})
    access = {"access_key": "s3-access", "secret_key": "s3-secret", "endpoint": server.endpoint}
    return StorePlace(
        S3,
        folder,
        {
            "root": f"s3://{bucket}/lake",
            "storage": {"s3": access},
            "secrets": {"folder": str(folder / "secrets")},
        },
    )


def _write_secrets(folder: Path, secrets: Mapping[str, str]) -> None:
    (folder / "secrets").mkdir()
    for name, value in secrets.items():
        (folder / "secrets" / name).write_text(value)


def make_container(endpoint: str, container: str, trust: Path | None = None) -> None:
    """Create Container of Azure's Blob REST API, signed with the account's key (Shared Key authorization).

    Args:
        endpoint: Endpoint of the emulator.
        container: Name of the container.
        trust: CA certificate of the emulator.
    """
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    # The emulator's path begins with the account, which the resource then holds twice.
    resource = f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{container}\nrestype:container"
    # The method, eleven standard headers that are not there, and those of Azure.
    named = "\n".join(f"{name}:{value}" for name, value in headers.items())
    text = "PUT" + "\n" * 12 + f"{named}\n{resource}"
    digest = hmac.new(base64.b64decode(AZURITE_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {AZURITE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{endpoint}/{AZURITE_ACCOUNT}/{container}?restype=container"
    request = urllib.request.Request(url, method="PUT", headers={**headers, "Content-Length": "0"})
    context = None if trust is None else ssl.create_default_context(cafile=str(trust))
    with urllib.request.urlopen(request, context=context) as answer:
        assert answer.status == 201
