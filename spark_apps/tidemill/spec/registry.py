"""A schema or model registry of an environment, and its credentials, without values of secrets."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from tidemill.spec.strict import Strict
from tidemill.spec.text import Expression, Line, SecretName
from tidemill.spec.web_address import WebAddress, check_encrypted


class Registry(Strict):
    """A registry with an HTTP API."""

    url: WebAddress = Field(description="URL of the REST API, e.g. https://registry.example.com:8081.")
    username: Line | None = Field(None, description="User name for basic authentication; not a secret.")
    password: SecretName | None = Field(None, description="Name of the secret with the password.")
    token: SecretName | None = Field(
        None, description="Name of the secret with a bearer token, instead of user name and password."
    )
    ca_file: Expression | None = Field(
        None, description="PEM file with the certificate authority, if Python does not trust it by default."
    )

    @property
    def address(self) -> str:
        """Return the URL without a trailing slash."""
        return self.url.rstrip("/")

    @model_validator(mode="after")
    def _credentials_are_whole_and_encrypted(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("`username` and `password` go together")
        if self.token is not None and self.password is not None:
            raise ValueError("expected `token`, or `username` and `password`; not both")
        has_credentials = self.password is not None or self.token is not None
        check_encrypted(self.url, self.ca_file, has_credentials=has_credentials)
        return self
