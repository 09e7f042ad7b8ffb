"""Authentication of clients at the root's object store. It names secrets and never has their values."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tidemill.spec.strict import OneOf, Strict
from tidemill.spec.text import SecretName

# Only scheme, host and port. A path, a user or a query in an address is a mistake or a secret.
ENDPOINT_PATTERN = r"^https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?$"
REGION_PATTERN = r"^[a-z0-9-]{1,40}$"

Endpoint = Annotated[str, Field(pattern=ENDPOINT_PATTERN)]


class AzureStorage(Strict):
    """A container of an Azure storage account. `root` names the account."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["account_key"]}, {"required": ["identity"]}]}
    )

    account_key: SecretName | None = Field(
        None, description="Name of the secret with the account key. Set this key or `identity`."
    )
    identity: Literal["workload"] | None = Field(
        None,
        description="workload: the pod's identity from Azure's workload identity webhook, without a secret.",
    )
    endpoint: Endpoint | None = Field(
        None, description="Address of an emulator such as Azurite. Not needed for Azure itself."
    )

    @model_validator(mode="after")
    def _key_or_identity(self) -> Self:
        if (self.account_key is None) == (self.identity is None):
            raise ValueError("expected exactly one of `account_key` and `identity`")
        return self


class S3Storage(Strict):
    """A bucket of S3 or of an S3-compatible store."""

    access_key: SecretName | None = Field(
        None,
        description="Name of the secret with the access key id. Default: the role of the pod or the node.",
    )
    secret_key: SecretName | None = Field(None, description="Name of the secret with the secret access key.")
    region: str = Field("us-east-1", pattern=REGION_PATTERN, description="The bucket's region.")
    endpoint: Endpoint | None = Field(
        None, description="Address of a store other than Amazon's. The bucket is then part of the path."
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
    """Check that the credentials are for the root's kind of store.

    Raises:
        ValueError: If it would have no effect.
    """
    if access is None:
        return
    schemes = ("abfss", "abfs") if access.azure is not None else ("s3", "s3a")
    if root.partition("://")[0] not in schemes:
        raise ValueError(f"`storage: {access.kind}` needs a root such as {schemes[0]}://…")
