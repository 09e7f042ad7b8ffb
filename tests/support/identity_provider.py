"""Token provider for a pod's identity: the endpoints of Microsoft Entra and of AWS STS.

It is a separate process, because delta-rs holds Python's lock while it waits for an answer. It issues a token
for one known proof in the right form and refuses all other requests.

    python -m tests.support.identity_provider CERTIFICATE KEY PROOF
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from tests.support.store_servers import S3_ACCESS_KEY, S3_SECRET_KEY
from tidemill.dev.ports import LOOPBACK

CLIENT_ID = "11111111-2222-3333-4444-555555555555"
TENANT_ID = "66666666-7777-8888-9999-000000000000"
ROLE = "arn:aws:iam::123456789012:role/tidemill"

_ENTRA_FORM = {
    "grant_type": "client_credentials",
    "client_id": CLIENT_ID,
    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    "scope": "https://storage.azure.com/.default",
}
_STS_FORM = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": ROLE}

# The S3 server of the tests knows its account's keys and no sessions, so the session's token is empty.
_STS_ANSWER = f"""\
<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <Credentials>
      <AccessKeyId>{S3_ACCESS_KEY}</AccessKeyId>
      <SecretAccessKey>{S3_SECRET_KEY}</SecretAccessKey>
      <SessionToken></SessionToken>
      <Expiration>2100-01-01T00:00:00Z</Expiration>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>
"""


class _Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proof = ""

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        # Clients of STS differ in where they put the form.
        form = dict(parse_qsl(f"{address.query}&{body}"))
        if address.path == f"/{TENANT_ID}/oauth2/v2.0/token":
            granted = _holds(form, {**_ENTRA_FORM, "client_assertion": self.proof})
            self._answer(granted, "application/json", json.dumps(_token_of_azure()))
        elif address.path == "/":
            granted = _holds(form, {**_STS_FORM, "WebIdentityToken": self.proof})
            self._answer(granted, "text/xml", _STS_ANSWER)
        else:
            self._answer(False, "text/plain", "")

    def _answer(self, granted: bool, kind: str, text: str) -> None:
        content = text.encode() if granted else b"{}"
        self.send_response(200 if granted else 401)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _holds(form: dict[str, str], wanted: dict[str, str]) -> bool:
    return wanted.items() <= form.items()


def _token_of_azure() -> dict[str, str | int]:
    """Return a token with the claims that Azurite checks. Azurite does not check the signature."""
    now = int(time.time())
    claims = {
        "aud": "https://storage.azure.com",
        "iss": f"https://sts.windows.net/{TENANT_ID}/",
        "iat": now,
        "nbf": now - 60,
        "exp": now + 3600,
        "appid": CLIENT_ID,
    }
    token = ".".join(_part(part) for part in ({"alg": "RS256", "typ": "JWT"}, claims, {"not": "signed"}))
    return {"token_type": "Bearer", "expires_in": 3599, "access_token": token}


def _part(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def main(certificate: str, key: str, proof: str) -> None:
    """Answer until the process is ended."""
    _Provider.proof = proof
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer((LOOPBACK, 0), _Provider) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        sys.stdout.write(f"listens on https://{LOOPBACK}:{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
