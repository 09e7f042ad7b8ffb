"""Storage by the identity that Kubernetes gives a pod: no key, by obstore, delta-rs and Hadoop.

Real stores and real clients; who exchanges the pod's proof for a token is `tests.support.identity_provider`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from obstore.exceptions import BaseError

from tests.support.certificates import Certificates, make_certificates
from tests.support.executors import drivers_with_executors
from tests.support.identity_provider import CLIENT_ID, ROLE, TENANT_ID
from tests.support.jvm_programs import java_program
from tests.support.store_servers import AZURITE_ACCOUNT, StoreServer, azurite, identity_provider
from tests.support.stores import AZURITE, S3, StorePlace, make_container
from tidemill.engine.classify import classify
from tidemill.errors import TidemillError
from tidemill.ledger.read import open_table
from tidemill.names import Layout
from tidemill.storage.access import access_to

PROOF = "signed.by.kubernetes"

PIPELINE = """
description: Readings, each once.
owner: tests
source:
  files: {path: landing, format: json, schema: "id long, at timestamp"}
event_time: {column: at, watermark: 1 hour, max_ahead: off}
transform: readings:transform
sinks:
  - delta: {table: bronze/readings, writer: arrow}
  - delta: {table: silver/readings, writer: spark}
run: {mode: incremental, shuffle_partitions: 2}
"""

TRANSFORM = """
def transform(readings):
    return readings.dropDuplicates(["id", "at"])
"""

# Seconds for a driver with executors to run its batches; about 40 on two busy cores.
RUN_SECONDS = 240.0

# Numbers for the names of containers and buckets.
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Pod:
    """Access of a pod with an identity.

    Args:
        provider: Address of the token provider.
        token_file: The pod's proof.
        certificates: The certificates that it trusts.
    """

    provider: str
    token_file: Path
    certificates: Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[str]:
    with identity_provider(tmp_path_factory.mktemp("provider"), certificates, PROOF) as address:
        yield address


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[StoreServer]:
    with azurite(tmp_path_factory.mktemp("azurite"), certificates) as server:
        yield server


@pytest.fixture
def pod(tmp_path: Path, certificates: Certificates, provider: str, monkeypatch: pytest.MonkeyPatch) -> Pod:
    token_file = tmp_path / "token"
    token_file.write_text(PROOF)
    for name, value in certificates.trusted_by_openssl_and_rustls.items():
        monkeypatch.setenv(name, value)
    return Pod(provider, token_file, certificates)


@pytest.fixture
def place_on_azure(pod: Pod, azure: StoreServer, monkeypatch: pytest.MonkeyPatch) -> StorePlace:
    """Return an empty container, in a pod as Azure's webhook makes it."""
    variables = {
        "AZURE_CLIENT_ID": CLIENT_ID,
        "AZURE_TENANT_ID": TENANT_ID,
        "AZURE_FEDERATED_TOKEN_FILE": str(pod.token_file),
        # The webhook's value also ends with a slash.
        "AZURE_AUTHORITY_HOST": f"{pod.provider}/",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    container = f"of-an-identity-{next(NUMBERS)}"
    make_container(azure.endpoint, container, pod.certificates.authority)
    root = f"abfss://{container}@{AZURITE_ACCOUNT}.dfs.core.windows.net/lake"
    storage = {"azure": {"identity": "workload", "endpoint": azure.endpoint}}
    return StorePlace(AZURITE, pod.token_file.parent, {"root": root, "storage": storage})


@pytest.fixture
def place_on_s3(pod: Pod, s3_store_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> StorePlace:
    """Return an empty bucket, in a pod as EKS's webhook makes it."""
    variables = {
        # Without it, Amazon's SDK asks sts.amazonaws.com, whatever AWS_ENDPOINT_URL_STS says.
        "AWS_REGION": "us-east-1",
        "AWS_ROLE_ARN": ROLE,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(pod.token_file),
        "AWS_ENDPOINT_URL_STS": pod.provider,
        # No client may fall back to the node's identity.
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    bucket = f"of-a-role-{next(NUMBERS)}"
    (s3_store_server.folder / bucket).mkdir()
    storage = {"s3": {"endpoint": s3_store_server.endpoint}}
    return StorePlace(S3, pod.token_file.parent, {"root": f"s3://{bucket}/lake", "storage": storage})


@pytest.fixture
def project(tmp_path: Path, place_on_azure: StorePlace) -> Path:
    """Return a project whose one pipeline has tasks that write files, by both writers, and state."""
    folder = tmp_path / "project"
    for path, content in {
        "conf/environments/local.yaml": yaml.safe_dump(dict(place_on_azure.keys)),
        "conf/pipelines/readings.yaml": PIPELINE,
        "spark_apps/transforms/readings.py": TRANSFORM,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return folder


@pytest.fixture(params=["place_on_azure", "place_on_s3"])
def place(request: pytest.FixtureRequest) -> StorePlace:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, StorePlace)
    return found


def test_control_files_and_tables_are_written_and_read(place: StorePlace) -> None:
    store, table = place.open(), Layout(place.root).table("bronze/readings")
    assert store.create_json(f"{place.root}/state/readings/current.json", {"generation": "g0001"})
    assert not store.create_json(f"{place.root}/state/readings/current.json", {"generation": "g0002"})
    write_deltalake(table, pa.table({"id": [1, 2]}), storage_options=access_to(place.root).delta_options())
    assert place.ids(table) == [1, 2]
    assert store.list_names(place.root + "/state") == ["readings"]


def test_sparks_file_systems_read_and_write_the_same_files(place: StorePlace, pod: Pod) -> None:
    store = place.open()
    folder = f"{place.root}/state/readings"
    store.write(f"{folder}/1", b"from Python")
    program = java_program(
        "StorageProbe", f"{folder}/1", f"{folder}/2", variables=pod.certificates.trusted_by_java
    )
    settings = access_to(place.root).hadoop
    assert PROOF not in str(settings)
    output, errors = program.communicate("".join(f"{name}={value}\n" for name, value in settings.items()))
    assert output.split("\n")[:2] == ["from Python", "2"], errors
    assert store.read(f"{folder}/2") == b"from the JVM"


def test_a_driver_and_its_executors_write_tables_state_and_control_files(
    place_on_azure: StorePlace, pod: Pod, project: Path
) -> None:
    layout, store = Layout(place_on_azure.root), place_on_azure.open()
    for number in range(2):
        reading = f'{{"id": {number}, "at": "2026-01-01T00:00:00Z"}}\n'
        store.write(f"{place_on_azure.root}/landing/{number}.json", reading.encode())
    with drivers_with_executors(project, pod.certificates.trusted_by_java) as drivers:
        driver = drivers.start("readings", "incremental")
        assert driver.wait(RUN_SECONDS) == 0, driver.output[-3000:]
    for table in ("bronze/readings", "silver/readings"):
        assert place_on_azure.ids(layout.table(table)) == [0, 1]
    assert store.list_files(f"{layout.checkpoint('readings', 'g0001')}/state")
    assert PROOF not in driver.output


def test_a_proof_that_opens_nothing_is_a_mistake_in_conf(place: StorePlace, pod: Pod) -> None:
    store = place.open()
    another = "signed.by.somebody"
    pod.token_file.write_text(another)
    for act in (
        lambda: store.read(f"{place.root}/state/x"),
        lambda: open_table(Layout(place.root).table("bronze/readings")),
    ):
        refused = told(act)
        pod.token_file.unlink()
        missing = told(act)
        pod.token_file.write_text(another)
        assert (refused.error_id, missing.error_id) == ("TIDE-STOR-005", "TIDE-STOR-005")
        assert another not in str(refused)


def test_a_renewed_proof_is_read_again(place: StorePlace, pod: Pod) -> None:
    store = place.open()
    pod.token_file.write_text("signed.long.ago")
    with pytest.raises(BaseError):
        store.write(f"{place.root}/state/x", b"")
    pod.token_file.write_text(PROOF)
    store.write(f"{place.root}/state/x", b"")
    assert store.read(f"{place.root}/state/x") == b""


def told(act: Callable[[], object]) -> TidemillError:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever the clients raise
        act()
    return classify(caught.value)
