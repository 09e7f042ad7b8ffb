"""A registry of an environment, of schemas or models, and who asks it. Never the values of secrets."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from tidemill.spec.strict import Strict
from tidemill.spec.text import Expression, Line, SecretName
from tidemill.spec.web_address import WebAddress, check_encrypted


class Registry(Strict):
    """A registry that is asked over HTTP."""

    url: WebAddress = Field(description="Address of its REST API, e.g. https://registry.example.com:8081.")
    username: Line | None = Field(None, description="User name for basic authentication; not a secret.")
    password: SecretName | None = Field(None, description="Name of the secret that holds the password.")
    token: SecretName | None = Field(
        None, description="Name of the secret that holds a bearer token; instead of user name and password."
    )
    ca_file: Expression | None = Field(
        None, description="PEM file with the certificate authority, if not one that Python trusts."
    )

    @property
    def address(self) -> str:
        """The URL without a slash at its end."""
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
