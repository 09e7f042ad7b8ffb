"""Logins to a namespace by tokens: the source of the next token, in Python and in Kafka's Java clients.

| login | Python | Java |
|---|---|---|
| client secret | the token endpoint | `io.tidemill.kafka.FreshTokenLogin` does the same |
| token file | the file, read each time | the same |
| workload identity | the proof's file, read each time, then the token endpoint | the same |

Kafka's own handler is not used: it reads a file only once, so a stream would fail when the first token
expires, and it logs the answers of a token endpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tidemill.errors import UnavailableError
from tidemill.sources.token_endpoint import Application, ask_for_token
from tidemill.sources.web_token import AccessToken, check_begun, read_token
from tidemill.spec.hub_login import ClientSecretLogin, HubLogin, WorkloadIdentityLogin
from tidemill.spec.project import Environment
from tidemill.spec.secret_value import read_secret
from tidemill.storage.workload_identity import read_workload_identity

_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_HANDLER = "io.tidemill.kafka.FreshTokenLogin"
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

# Share of its lifetime after which a token is not given to other clients. Kafka's clients also renew theirs
# then.
_FRESH_SHARE = 0.8


class TokenLogin(Protocol):
    """A source of tokens."""

    def token(self, scope: str | None = None) -> AccessToken:
        """Return a valid token; `scope` is set for a service other than the Kafka endpoint.

        Raises:
            SpecError: TIDE-HUB-030 or 031, if the application or its tenant is wrong.
            UnavailableError: TIDE-HUB-032 to 035, if no token is available now.
        """

    def java_options(self) -> dict[str, str]:
        """Return settings of Kafka's Java clients, which hold secrets."""


@dataclass(frozen=True)
class ClientSecret:
    """An application with a secret."""

    application: Application
    secret: str = field(repr=False)
    scope: str

    def token(self, scope: str | None = None) -> AccessToken:
        """Return a token from the token endpoint, or the last one while it is fresh."""
        return _FRESH.token(self.application, {"client_secret": self.secret}, scope or self.scope)

    def java_options(self) -> dict[str, str]:
        """Return the settings of Tidemill's handler."""
        return _our_handler({**_asks(self.application, self.scope), "clientSecret": self.secret})


@dataclass(frozen=True)
class TokenFile:
    """A file that another program renews."""

    path: str

    def token(self, scope: str | None = None) -> AccessToken:
        """Return the current token in the file; `scope` is ignored."""
        del scope
        try:
            token = read_token(_content(self.path))
        except ValueError as error:
            raise _no_token(self.path, str(error)) from None
        now = time.time()
        check_begun(token, now, {"file": self.path})
        if token.expires_at <= now:
            raise UnavailableError(
                "TIDE-HUB-034",
                "The token of the token file has expired.",
                facts={"file": self.path, "expired_seconds_ago": round(now - token.expires_at)},
                fix="see what should renew the file, and this clock; the driver tries again by itself",
                runbook="source-unavailable",
            )
        return token

    def java_options(self) -> dict[str, str]:
        """Return the settings of Tidemill's handler."""
        return _our_handler({"tokenFile": self.path})


@dataclass(frozen=True)
class FederatedToken:
    """A workload identity: the token endpoint accepts a token file that Kubernetes renews."""

    application: Application
    path: str
    scope: str

    def token(self, scope: str | None = None) -> AccessToken:
        """Return a token from the token endpoint, or the last one while it is fresh."""
        proof = {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": _content(self.path)}
        return _FRESH.token(self.application, proof, scope or self.scope)

    def java_options(self) -> dict[str, str]:
        """Return the settings of Tidemill's handler."""
        return _our_handler({**_asks(self.application, self.scope), "assertionFile": self.path})


class _FreshTokens:
    """The last token of each application, so that the clients of one command make one request."""

    def __init__(self) -> None:
        self._kept: dict[object, tuple[AccessToken, float]] = {}

    def token(self, application: Application, proof: Mapping[str, str], scope: str) -> AccessToken:
        key = (application, tuple(proof.items()), scope)
        kept = self._kept.get(key)
        if kept is not None and time.time() < kept[1]:
            return kept[0]
        token = ask_for_token(application, proof, scope)
        now = time.time()
        # Proofs also change, so stale tokens are dropped.
        self._kept = {name: found for name, found in self._kept.items() if now < found[1]}
        self._kept[key] = (token, now + (token.expires_at - now) * _FRESH_SHARE)
        return token


_FRESH = _FreshTokens()


def token_login(
    auth: HubLogin, environment: Environment, host: str, variables: Mapping[str, str] = os.environ
) -> TokenLogin | None:
    """Return the login to a namespace; None for a connection string.

    Args:
        auth: The declared login.
        environment: Environment of its secrets.
        host: The namespace's host.
        variables: Environment variables of this process.

    Raises:
        SpecError: TIDE-SPEC-030, if a secret has no value here; 033, if there is no workload identity here.
    """
    scope = f"https://{host}/.default"
    if auth.client_secret is not None:
        return _client_secret(auth.client_secret, environment, scope)
    if auth.workload_identity is not None:
        return _workload_identity(auth.workload_identity, variables, scope)
    return None if auth.token_file is None else TokenFile(auth.token_file)


def _client_secret(declared: ClientSecretLogin, environment: Environment, scope: str) -> ClientSecret:
    application = Application(
        declared.authority, declared.tenant, declared.client, f"secret {declared.secret}"
    )
    return ClientSecret(application, read_secret(environment, declared.secret), scope)


def _workload_identity(
    declared: WorkloadIdentityLogin, variables: Mapping[str, str], scope: str
) -> FederatedToken:
    own = read_workload_identity(variables, "another login of `auth`")
    application = Application(
        own.authority, declared.tenant or own.tenant_id, declared.client or own.client_id, own.token_file
    )
    return FederatedToken(application, own.token_file, scope)


def _content(path: str) -> str:
    try:
        content = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _no_token(path, type(error).__name__) from None
    if not content:
        raise _no_token(path, "empty")
    return content


def _no_token(path: str, reason: str) -> UnavailableError:
    return UnavailableError(
        "TIDE-HUB-033",
        "The token file holds no token.",
        facts={"file": path, "reason": reason},
        fix="see what should write the file, and that it is mounted here; the driver tries again by itself",
        runbook="source-unavailable",
    )


def _asks(application: Application, scope: str) -> dict[str, str]:
    return {"clientId": application.client, "scope": scope, "tokenEndpoint": application.address}


def _our_handler(options: dict[str, str]) -> dict[str, str]:
    return {
        "sasl.login.callback.handler.class": _HANDLER,
        "sasl.jaas.config": jaas_line(_MODULE, options),
    }


def jaas_line(module: str, options: Mapping[str, str]) -> str:
    """Return one JAAS line. With an unescaped `"` in a value, Kafka's error would print the rest of it."""
    return f"{module} required " + " ".join(f'{name}="{_escaped(v)}"' for name, v in options.items()) + ";"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
