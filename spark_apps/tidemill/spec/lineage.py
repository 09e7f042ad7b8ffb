"""The receiver of lineage events, and the names of tables in them, without values of secrets."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from tidemill.spec.strict import Strict
from tidemill.spec.text import Expression, SecretName
from tidemill.spec.units import Duration
from tidemill.spec.web_address import WebAddress, check_encrypted

# An identifier that every engine accepts without quotes.
CatalogName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]

DEFAULT_NAMESPACE = "tidemill"


class Lineage(Strict):
    """A service that receives OpenLineage events over HTTP, such as Marquez, DataHub or OpenMetadata."""

    url: WebAddress = Field(
        description="URL, e.g. https://marquez.example.com:5000. Events are posted to `api/v1/lineage` below."
    )
    api_key: SecretName | None = Field(
        None, description="Name of the secret with the API key, which is sent as a bearer token."
    )
    ca_file: Expression | None = Field(
        None, description="PEM file with the certificate authority, if Python does not trust it by default."
    )
    namespace: str = Field(
        DEFAULT_NAMESPACE,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$",
        description="Namespace of the jobs. Each environment needs a different one. The name of a job is the "
        "name of its pipeline.",
    )
    every: Duration = Field(
        timedelta(minutes=1),
        validate_default=True,
        description="Minimum time between two events of a run. An event describes the newest batch. "
        "`tidemill lineage emit` sends the events of all batches afterwards.",
    )

    @model_validator(mode="after")
    def _key_is_sent_encrypted(self) -> Self:
        check_encrypted(self.url, self.ca_file, has_credentials=self.api_key is not None)
        return self
