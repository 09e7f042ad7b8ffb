"""Microsoft Entra's token endpoint on loopback: real RS256 tokens, as short as a test wants them.

It refuses as Entra does, with OAuth's `error` and Entra's numbers, and its descriptions repeat the request:
a client that quotes them is found out.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tidemill.dev.ports import LOOPBACK

TENANT = "66666666-7777-8888-9999-000000000000"
CLIENT = "11111111-2222-3333-4444-555555555555"
FEDERATED_CLIENT = "22222222-2222-3333-4444-555555555555"
CLIENT_SECRET = "canary~client.secret-Q8"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

# Whom tokens are for: a namespace, and brokers that an environment knows by their address.
NAMESPACE = "https://plant-north.servicebus.windows.net"
BROKERS = f"https://{LOOPBACK}"

_KEY_ID = "of-the-tests"
_BEARER = "listener.name.sasl_ssl.oauthbearer"
_SECURITY = "org.apache.kafka.common.security.oauthbearer"


class SigningKey:
    """Key that signs tokens; a broker checks them by `jwks`."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def jwks(self) -> str:
        """Return the public half, as a set of JSON web keys."""
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return json.dumps({"keys": [{**public, "kid": _KEY_ID, "use": "sig", "alg": "RS256"}]})

    def sign(
        self,
        audience: str,
        lifetime_seconds: float,
        *,
        subject: str = "somebody",
        begins_in_seconds: float = 0,
    ) -> str:
        """Return a token for a namespace."""
        now = int(time.time())
        claims = {
            "aud": audience,
            "iss": f"https://sts.windows.net/{TENANT}/",
            "sub": subject,
            "iat": now,
            "nbf": now + int(begins_in_seconds),
            "exp": now + int(lifetime_seconds),
            # Makes every part of two tokens from the same second different.
            "jti": secrets.token_hex(8),
        }
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": _KEY_ID})


@dataclass
class TokenEndpoint:
    """Token endpoint for two applications: one has a secret, the other a proof that Kubernetes signed.

    Args:
        key: Signs the tokens.
        lifetime_seconds: Lifetime of the tokens.
        begins_in_seconds: Delay until they are valid.
        broken: Status of every answer; 0 while the endpoint works.
        busy: Number of further answers that say it is busy.
        issued: Issued tokens, by application.
    """

    key: SigningKey
    proof: str = "canary.signed-by.kubernetes"
    lifetime_seconds: float = 3600
    begins_in_seconds: float = 0
    broken: int = 0
    busy: int = 0
    issued: dict[str, list[str]] = field(default_factory=dict)
    address: str = ""

    @contextmanager
    def listening(self) -> Iterator[TokenEndpoint]:
        """Answer until the block ends."""
        handler = type("_Handler", (_Handler,), {"endpoint": self})
        with ThreadingHTTPServer((LOOPBACK, 0), handler) as server:
            self.address = f"http://{LOOPBACK}:{server.server_port}"
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            yield self
            server.shutdown()

    @property
    def tokens(self) -> list[str]:
        """Return all issued tokens."""
        return [token for tokens in self.issued.values() for token in tokens]

    def client_secret(self, secret: str = "hub-client") -> dict[str, object]:
        """Return `auth` of a pipeline file."""
        login = {"tenant": TENANT, "client": CLIENT, "secret": secret, "authority": self.address}
        return {"client_secret": login}

    def pod(self, token_file: Path) -> dict[str, str]:
        """Return variables of a pod with a workload identity, whose proof is written where they say."""
        token_file.write_text(self.proof)
        return {
            "AZURE_CLIENT_ID": FEDERATED_CLIENT,
            "AZURE_TENANT_ID": TENANT,
            "AZURE_FEDERATED_TOKEN_FILE": str(token_file),
            # The webhook's value also ends with a slash.
            "AZURE_AUTHORITY_HOST": f"{self.address}/",
        }

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, object]]:
        """Return status and document."""
        if self.busy:
            self.busy -= 1
            return 503, {"unexpected": form}
        if self.broken:
            return self.broken, {"unexpected": form}
        tenant, client, audience = path.split("/")[1], form.get("client_id", ""), form.get("scope", "")
        if path != f"/{tenant}/oauth2/v2.0/token" or form.get("grant_type") != "client_credentials":
            return 400, _error("unsupported_grant_type", 70003, form)
        if tenant != TENANT:
            return 400, _error("invalid_request", 90002, form)
        if (client, form.get("client_secret")) != (CLIENT, CLIENT_SECRET) and not self._proves(client, form):
            number = 7000215 if "client_secret" in form else 70021
            return 401, _error("invalid_client", number, form)
        token = self.key.sign(
            audience.removesuffix("/.default"),
            self.lifetime_seconds,
            subject=client,
            begins_in_seconds=self.begins_in_seconds,
        )
        self.issued.setdefault(client, []).append(token)
        lifetime = int(self.lifetime_seconds)
        return 200, {"token_type": "Bearer", "expires_in": lifetime, "access_token": token}

    def _proves(self, client: str, form: dict[str, str]) -> bool:
        proof = (form.get("client_assertion_type"), form.get("client_assertion"))
        return (client, *proof) == (FEDERATED_CLIENT, ASSERTION_TYPE, self.proof)


@contextmanager
def kept_fresh(file: Path, key: SigningKey, lifetime_seconds: float) -> Iterator[list[str]]:
    """Renew a token file as a sidecar does, after half of the token's life; yield all tokens."""
    written: list[str] = []
    stop = threading.Event()

    def write() -> None:
        written.append(key.sign(NAMESPACE, lifetime_seconds))
        hidden = file.with_name(f".{file.name}")
        hidden.write_text(written[-1])
        hidden.rename(file)

    def keep() -> None:
        while not stop.wait(lifetime_seconds / 2):
            write()

    write()
    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        yield written
    finally:
        stop.set()
        keeper.join()


def broker_that_takes_tokens(key: SigningKey, jwks: Path) -> dict[str, object]:
    """Properties of a broker whose SASL_SSL listener takes tokens, and ends connections when theirs end."""
    jwks.write_text(key.jwks)
    module = f"{_SECURITY}.OAuthBearerLoginModule"
    return {
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"{_BEARER}.sasl.jaas.config": f'{module} required unsecuredLoginStringClaim_sub="x";',
        f"{_BEARER}.sasl.server.callback.handler.class": f"{_SECURITY}.OAuthBearerValidatorCallbackHandler",
        f"{_BEARER}.connections.max.reauth.ms": 3_600_000,
        "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        "sasl.oauthbearer.expected.audience": f"{NAMESPACE},{BROKERS}",
        "sasl.oauthbearer.clock.skew.seconds": 0,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint: TokenEndpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        status, document = self.endpoint.answer(self.path, form)
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class' name
        """Nothing: a test's output is its own."""


def _error(kind: str, number: int, form: dict[str, str]) -> dict[str, object]:
    description = f"AADSTS{number}: This was sent: {form}"
    return {"error": kind, "error_description": description, "error_codes": [number]}
