"""How clients prove who they are to the object store of the root; values of secrets are never here."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from tidemill.spec.strict import OneOf, Strict
from tidemill.spec.text import SecretName

# Scheme, host and port, nothing more: a path, a user or a query in an address is a mistake or a secret.
ENDPOINT_PATTERN = r"^https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?$"
REGION_PATTERN = r"^[a-z0-9-]{1,40}$"

Endpoint = Annotated[str, Field(pattern=ENDPOINT_PATTERN)]


class AzureStorage(Strict):
    """A container of an Azure storage account; the account stands in `root`."""

    account_key: SecretName = Field(description="Name of the secret that holds the account's key.")
    endpoint: Endpoint | None = Field(
        None, description="Address of an emulator such as Azurite; Azure itself needs none."
    )


class S3Storage(Strict):
    """A bucket of S3 or of a store that speaks its protocol."""

    access_key: SecretName | None = Field(
        None, description="Name of the secret that holds the access key id; without it, the machine's role."
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
