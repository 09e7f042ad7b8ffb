"""Access to an object store: names of secrets, and only what has an effect."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from tidemill.spec.environment import EnvironmentSpec
from tidemill.spec.location import root_of_clients
from tidemill.spec.storage import AzureStorage

ON_AZURE = "abfss://lake@plant.dfs.core.windows.net/tidemill"


def environment(root: str, storage: dict[str, Any]) -> EnvironmentSpec:
    return EnvironmentSpec.model_validate({"root": root, "storage": storage})


@pytest.mark.parametrize(
    ("root", "storage"),
    [
        (ON_AZURE, {"azure": {"account_key": "plant-key"}}),
        (ON_AZURE, {"azure": {"account_key": "plant-key", "endpoint": "http://127.0.0.1:10000"}}),
        (ON_AZURE, {"azure": {"identity": "workload"}}),
        ("s3://lake", {"s3": {}}),
        ("s3a://lake/x", {"s3": {"access_key": "a", "secret_key": "b", "endpoint": "https://minio.plant"}}),
    ],
)
def test_access_that_fits_the_root_is_taken(root: str, storage: dict[str, Any]) -> None:
    assert environment(root, storage).storage is not None


@pytest.mark.parametrize(
    ("root", "storage"),
    [
        pytest.param(".data", {"azure": {"account_key": "plant-key"}}, id="a folder"),
        pytest.param("s3://lake", {"azure": {"account_key": "plant-key"}}, id="another store"),
        pytest.param(ON_AZURE, {"s3": {}}, id="another store"),
        pytest.param(ON_AZURE, {}, id="of no store"),
        pytest.param(ON_AZURE, {"azure": {}}, id="no key"),
        pytest.param(
            ON_AZURE, {"azure": {"account_key": "k", "identity": "workload"}}, id="a key and an identity"
        ),
        pytest.param(ON_AZURE, {"azure": {"identity": "somebody"}}, id="an identity of no kind"),
        pytest.param(ON_AZURE, {"azure": {"account_key": "q7K/0f=="}}, id="a value for a name"),
        pytest.param("s3://lake", {"s3": {"access_key": "a"}}, id="half a pair of keys"),
        pytest.param("s3://lake", {"s3": {"secret_key": "a"}}, id="half a pair of keys"),
        pytest.param("s3://lake", {"s3": {"endpoint": "http://me:secret@host"}}, id="a password"),
        pytest.param("s3://lake", {"s3": {"endpoint": "http://host/path"}}, id="a path"),
        pytest.param("s3://lake", {"s3": {"endpoint": "http://host\n"}}, id="a line break"),
        pytest.param("s3://lake", {"s3": {"endpoint": "ftp://host"}}, id="another protocol"),
        pytest.param("s3://lake", {"s3": {"region": "$(id)"}}, id="no region"),
    ],
)
def test_access_that_would_have_no_effect_or_holds_a_value_is_refused(
    root: str, storage: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        environment(root, storage)


@pytest.mark.parametrize(
    ("root", "known_as"),
    [
        ("s3://lake/tidemill", "s3a://lake/tidemill"),
        ("s3a://lake/tidemill", "s3a://lake/tidemill"),
        (ON_AZURE, ON_AZURE),
        ("/srv/s3://x", "/srv/s3://x"),
    ],
)
def test_a_root_is_known_to_all_clients_by_one_name(root: str, known_as: str) -> None:
    assert root_of_clients(root) == known_as


@pytest.mark.parametrize(
    ("azure", "errors"),
    [
        ({"account_key": "k"}, 0),
        ({"identity": "workload"}, 0),
        ({}, 1),
        ({"account_key": "k", "identity": "workload"}, 1),
    ],
)
def test_the_schema_of_the_file_says_the_same_of_key_and_identity(azure: dict[str, Any], errors: int) -> None:
    schema = Draft202012Validator(AzureStorage.model_json_schema())
    assert len(list(schema.iter_errors(azure))) == errors
