"""Where lineage is sent to, and how tables are named there. Values of secrets are never here."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from tidemill.spec.strict import Strict
from tidemill.spec.text import Expression, SecretName
from tidemill.spec.units import Duration
from tidemill.spec.web_address import WebAddress, check_encrypted

# An identifier that every engine takes without quotes.
CatalogName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]

DEFAULT_NAMESPACE = "tidemill"


class Lineage(Strict):
    """A service that takes OpenLineage events over HTTP, such as Marquez, DataHub or OpenMetadata."""

    url: WebAddress = Field(
        description="Its address, e.g. https://marquez.example.com:5000; events go to `api/v1/lineage` there."
    )
    api_key: SecretName | None = Field(
        None, description="Name of the secret that holds its API key, which is sent as a bearer token."
    )
    ca_file: Expression | None = Field(
        None, description="PEM file with the certificate authority, if not one that Python trusts."
    )
    namespace: str = Field(
        DEFAULT_NAMESPACE,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$",
        description="Namespace of the jobs, one for each environment that the service knows; a job's name is "
        "that of its pipeline.",
    )
    every: Duration = Field(
        timedelta(minutes=1),
        validate_default=True,
        description="Of a run that commits batch after batch, at most one event in this time, of the newest "
        "batch. `tidemill lineage emit` sends those of all batches afterwards.",
    )

    @model_validator(mode="after")
    def _key_is_sent_encrypted(self) -> Self:
        check_encrypted(self.url, self.ca_file, has_credentials=self.api_key is not None)
        return self
