"""One root and three clients: the options of each, and no visible secret."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from tidemill.errors import SpecError
from tidemill.spec.storage import StorageAccess
from tidemill.storage.object_stores import NO_ACCESS, Access, read_access

SECRETS = {"plant-key": "k3y", "plant-id": "1d", "plant-secret": "s3cret"}
AZURE_ROOT = "abfss://lake@plant.dfs.core.windows.net/tidemill"
S3_ROOT = "s3a://lake/tidemill"
# Variables that the webhooks of Azure and EKS set in a pod.
AZURE_IDENTITY = {
    "AZURE_CLIENT_ID": "1111",
    "AZURE_TENANT_ID": "2222",
    "AZURE_FEDERATED_TOKEN_FILE": "/var/run/secrets/azure/tokens/azure-identity-token",
    "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
}
AWS_IDENTITY = {
    "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/tidemill",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
}
VARIABLES = {**AZURE_IDENTITY, **AWS_IDENTITY}


def access(root: str, variables: Mapping[str, str] = MappingProxyType({}), **storage: object) -> Access:
    return read_access(root, StorageAccess.model_validate(storage), SECRETS.__getitem__, variables)


def test_a_root_without_access_leaves_all_to_the_machine() -> None:
    assert read_access(AZURE_ROOT, None, SECRETS.__getitem__) == NO_ACCESS
    assert (NO_ACCESS.delta_options(), NO_ACCESS.hadoop) == ({}, {})


def test_an_azure_account_is_reached_by_its_key() -> None:
    azure = access(AZURE_ROOT, azure={"account_key": "plant-key"})
    assert azure.delta_options() == {"account_name": "plant", "account_key": "k3y"}
    assert azure.obstore_arguments() == {
        "config": {"account_name": "plant", "account_key": "k3y"},
        "client_options": {"allow_http": False},
    }
    assert azure.hadoop == {
        "fs.azure.account.key.plant.dfs.core.windows.net": "k3y",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
    }


def test_an_azure_account_is_reached_by_the_pods_identity() -> None:
    azure = access(AZURE_ROOT, VARIABLES, azure={"identity": "workload"})
    assert azure.delta_options() == {
        "account_name": "plant",
        "client_id": "1111",
        "tenant_id": "2222",
        "federated_token_file": "/var/run/secrets/azure/tokens/azure-identity-token",
        "authority_host": "https://login.microsoftonline.com",
    }
    host = "plant.dfs.core.windows.net"
    assert azure.hadoop == {
        f"fs.azure.account.auth.type.{host}": "OAuth",
        f"fs.azure.account.oauth.provider.type.{host}": (
            "org.apache.hadoop.fs.azurebfs.oauth2.WorkloadIdentityTokenProvider"
        ),
        f"fs.azure.account.oauth2.client.id.{host}": "1111",
        f"fs.azure.account.oauth2.msi.tenant.{host}": "2222",
        f"fs.azure.account.oauth2.token.file.{host}": "/var/run/secrets/azure/tokens/azure-identity-token",
        f"fs.azure.account.oauth2.msi.authority.{host}": "https://login.microsoftonline.com/",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
    }


@pytest.mark.parametrize("missing", AZURE_IDENTITY)
def test_a_pod_without_an_identity_is_told_which_variables_it_lacks(missing: str) -> None:
    variables = {**AZURE_IDENTITY, missing: ""}
    with pytest.raises(SpecError) as refused:
        access(AZURE_ROOT, variables, azure={"identity": "workload"})
    assert (refused.value.error_id, refused.value.facts) == ("TIDE-SPEC-033", {"missing_variables": missing})


def test_a_key_counts_also_where_the_pod_has_an_identity() -> None:
    azure = access(AZURE_ROOT, VARIABLES, azure={"account_key": "plant-key"})
    assert azure == access(AZURE_ROOT, azure={"account_key": "plant-key"})


def test_an_emulator_of_azure_is_reached_at_its_address() -> None:
    emulator = {"account_key": "plant-key", "endpoint": "http://127.0.0.1:10000"}
    azure = access(AZURE_ROOT, azure=emulator)
    assert azure.delta_options()["endpoint"] == "http://127.0.0.1:10000/plant"
    assert azure.delta_options()["allow_http"] == "true"
    assert azure.hadoop["fs.azure.abfs.endpoint"] == "127.0.0.1:10000"
    assert azure.hadoop["fs.azure.always.use.https"] == "false"


def test_an_s3_bucket_is_reached_by_its_keys() -> None:
    s3 = access(
        S3_ROOT, s3={"access_key": "plant-id", "secret_key": "plant-secret", "region": "eu-central-1"}
    )
    assert s3.delta_options() == {
        "region": "eu-central-1",
        "access_key_id": "1d",
        "secret_access_key": "s3cret",
    }
    assert s3.hadoop["fs.s3a.endpoint.region"] == "eu-central-1"
    assert (s3.hadoop["fs.s3a.access.key"], s3.hadoop["fs.s3a.secret.key"]) == ("1d", "s3cret")


def test_an_s3_bucket_without_keys_is_reached_by_the_machines_role() -> None:
    s3 = access(S3_ROOT, s3={"region": "eu-central-1"})
    assert s3.delta_options() == {"region": "eu-central-1"}
    assert s3.hadoop == {"fs.s3a.endpoint.region": "eu-central-1"}


def test_an_s3_bucket_without_keys_is_reached_by_the_pods_role_where_it_has_one() -> None:
    s3 = access(S3_ROOT, VARIABLES, s3={})
    assert s3.delta_options() == {"region": "us-east-1"}
    assert s3.hadoop["fs.s3a.aws.credentials.provider"] == (
        "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"
    )
    keys = {"access_key": "plant-id", "secret_key": "plant-secret"}
    assert access(S3_ROOT, VARIABLES, s3=keys) == access(S3_ROOT, s3=keys)


def test_another_store_that_speaks_s3_has_its_buckets_in_the_path() -> None:
    s3 = access(S3_ROOT, s3={"endpoint": "http://127.0.0.1:9000"})
    assert s3.plain_http
    assert s3.options["endpoint"] == s3.hadoop["fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert s3.options["virtual_hosted_style_request"] == "false"
    assert s3.hadoop["fs.s3a.path.style.access"] == "true"


@pytest.mark.parametrize(
    ("root", "storage"),
    [
        (AZURE_ROOT, {"azure": {"account_key": "plant-key"}}),
        (S3_ROOT, {"s3": {"access_key": "plant-id", "secret_key": "plant-secret"}}),
    ],
)
def test_what_is_printed_of_an_access_holds_no_secret(root: str, storage: dict[str, object]) -> None:
    shown = repr(access(root, **storage)) + str(access(root, **storage))
    assert not [value for value in SECRETS.values() if value in shown]


def test_an_access_can_be_sent_to_a_task() -> None:
    sent = access(S3_ROOT, s3={"access_key": "plant-id", "secret_key": "plant-secret"})
    assert pickle.loads(pickle.dumps(sent)) == sent
    assert pickle.loads(pickle.dumps(NO_ACCESS)) == NO_ACCESS
