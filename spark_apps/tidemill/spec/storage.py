"""How clients prove who they are to the object store of the root; values of secrets are never here."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tidemill.spec.strict import OneOf, Strict
from tidemill.spec.text import SecretName

# Scheme, host and port, nothing more: a path, a user or a query in an address is a mistake or a secret.
ENDPOINT_PATTERN = r"^https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?$"
REGION_PATTERN = r"^[a-z0-9-]{1,40}$"

Endpoint = Annotated[str, Field(pattern=ENDPOINT_PATTERN)]


class AzureStorage(Strict):
    """A container of an Azure storage account; the account stands in `root`."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["account_key"]}, {"required": ["identity"]}]}
    )

    account_key: SecretName | None = Field(
        None, description="Name of the secret that holds the account's key; this or `identity`."
    )
    identity: Literal["workload"] | None = Field(
        None,
        description="`workload`: as whom Azure's workload identity webhook makes the pod known; no secret.",
    )
    endpoint: Endpoint | None = Field(
        None, description="Address of an emulator such as Azurite; Azure itself needs none."
    )

    @model_validator(mode="after")
    def _key_or_identity(self) -> Self:
        if (self.account_key is None) == (self.identity is None):
            raise ValueError("expected exactly one of `account_key` and `identity`")
        return self


class S3Storage(Strict):
    """A bucket of S3 or of a store that speaks its protocol."""

    access_key: SecretName | None = Field(
        None,
        description="Name of the secret that holds the access key id; without, the pod's role or the node's.",
    )
    secret_key: SecretName | None = Field(
        None, description="Name of the secret that holds the secret access key."
    )
    region: str = Field("us-east-1", pattern=REGION_PATTERN, description="The bucket's region.")
    endpoint: Endpoint | None = Field(
        None, description="Address of a store that is not Amazon's; buckets are then part of the path."
    )

    @model_validator(mode="after")
    def _both_keys_or_none(self) -> Self:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("`access_key` and `secret_key` belong together; name both or neither")
        return self


class StorageAccess(OneOf):
    """Access to the storage root, by the kind of store."""

    azure: AzureStorage | None = Field(None, description="For a root such as `abfss://…`.")
    s3: S3Storage | None = Field(None, description="For a root such as `s3://…`.")


def check_access_fits(root: str, access: StorageAccess | None) -> None:
    """See that the access is that of the root's kind of store.

    Raises:
        ValueError: If it would have no effect.
    """
    if access is None:
        return
    schemes = ("abfss", "abfs") if access.azure is not None else ("s3", "s3a")
    if root.partition("://")[0] not in schemes:
        raise ValueError(f"`storage: {access.kind}` needs a root such as {schemes[0]}://…")
