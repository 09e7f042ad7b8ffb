"""The options that each client needs for one object store: obstore, delta-rs and Hadoop's file systems.

All three use the root in the environment unchanged; only their options differ. The option names are those of
the Rust crate object_store (`account_key`, …), of Hadoop's ABFS (`fs.azure.*`) and of S3A (`fs.s3a.*`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tidemill.spec.storage import AzureStorage, S3Storage, StorageAccess
from tidemill.storage.workload_identity import WorkloadIdentity, read_workload_identity

# Returns the value of a secret by its name.
ReadSecret = Callable[[str], str]


@dataclass(frozen=True)
class Access:
    """The credentials and options for one storage root. Its text form shows no secrets.

    Args:
        options: Options of obstore and delta-rs.
        plain_http: True if the address is not encrypted, as for an emulator on this machine.
        hadoop: Spark's Hadoop configuration, set after the start. Options at the start would be on the JVM's
            command line, where every user of the machine can read them.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    plain_http: bool = False
    hadoop: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Access({', '.join(self.options)})"

    def obstore_arguments(self) -> dict[str, Any]:
        """Return the arguments of `obstore.store.from_url`."""
        return {"config": dict(self.options), "client_options": {"allow_http": self.plain_http}}

    def delta_options(self) -> dict[str, str]:
        """Return `storage_options` of delta-rs."""
        return {**self.options, **({"allow_http": "true"} if self.plain_http else {})}


# Access to a local folder, or to an object store that recognises this machine (a role, a managed identity).
NO_ACCESS = Access()


def read_access(
    root: str,
    storage: StorageAccess | None,
    read_secret: ReadSecret,
    variables: Mapping[str, str] = os.environ,
) -> Access:
    """Return the credentials for a storage root.

    Raises:
        SpecError: TIDE-SPEC-030, if a secret has no value here; 033, if there is no workload identity here.
    """
    if storage is None:
        return NO_ACCESS
    if storage.azure is None:
        return _s3(storage.chosen, read_secret, variables)
    host = urlsplit(root).hostname or ""
    if storage.azure.account_key is not None:
        proof = _account_key(host, read_secret(storage.azure.account_key))
    else:
        proof = _identity(host, read_workload_identity(variables, "`account_key`"))
    return _azure(host, storage.azure, proof)


def _account_key(host: str, key: str) -> Access:
    return Access({"account_key": key}, hadoop={f"fs.azure.account.key.{host}": key})


def _identity(host: str, identity: WorkloadIdentity) -> Access:
    options = {
        "client_id": identity.client_id,
        "tenant_id": identity.tenant_id,
        "federated_token_file": identity.token_file,
        "authority_host": identity.authority,
    }
    prefix = "fs.azure.account"
    hadoop = {
        f"{prefix}.auth.type.{host}": "OAuth",
        f"{prefix}.oauth.provider.type.{host}": (
            "org.apache.hadoop.fs.azurebfs.oauth2.WorkloadIdentityTokenProvider"
        ),
        f"{prefix}.oauth2.client.id.{host}": identity.client_id,
        f"{prefix}.oauth2.msi.tenant.{host}": identity.tenant_id,
        f"{prefix}.oauth2.token.file.{host}": identity.token_file,
        f"{prefix}.oauth2.msi.authority.{host}": f"{identity.authority}/",
    }
    return Access(options, hadoop=hadoop)


def _azure(host: str, azure: AzureStorage, proof: Access) -> Access:
    account = host.partition(".")[0]
    options = {"account_name": account, **proof.options}
    # The default client is Apache's, which is not among the jars.
    hadoop = {**proof.hadoop, "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION"}
    if azure.endpoint is None:
        return Access(options, hadoop=hadoop)
    address = urlsplit(azure.endpoint)
    # An emulator has no host name per account, so the account is the first part of the path.
    options["endpoint"] = f"{azure.endpoint}/{account}"
    hadoop["fs.azure.abfs.endpoint"] = address.netloc
    hadoop["fs.azure.always.use.https"] = str(address.scheme == "https").lower()
    return Access(options, address.scheme == "http", hadoop)


def _s3(s3: S3Storage, read_secret: ReadSecret, variables: Mapping[str, str]) -> Access:
    options = {"region": s3.region}
    hadoop = {"fs.s3a.endpoint.region": s3.region}
    if s3.access_key is not None and s3.secret_key is not None:
        key, secret = read_secret(s3.access_key), read_secret(s3.secret_key)
        options |= {"access_key_id": key, "secret_access_key": secret}
        hadoop |= {
            "fs.s3a.access.key": key,
            "fs.s3a.secret.key": secret,
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        }
    elif variables.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        # The role of a pod's service account. S3A's own list of providers lacks it and continues with the
        # node's role, while obstore and delta-rs find it.
        hadoop["fs.s3a.aws.credentials.provider"] = (
            "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"
        )
    if s3.endpoint is None:
        return Access(options, hadoop=hadoop)
    plain = s3.endpoint.startswith("http://")
    options |= {"endpoint": s3.endpoint, "virtual_hosted_style_request": "false"}
    hadoop |= {
        "fs.s3a.endpoint": s3.endpoint,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": str(not plain).lower(),
    }
    return Access(options, plain, hadoop)
