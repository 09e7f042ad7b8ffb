"""A temporary certificate authority and a server certificate for the loopback interface.

They are created with the JDK's keytool, which exists wherever the broker runs.
"""

from __future__ import annotations

import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidemill.dev.broker_config import KeyStore
from tidemill.dev.java import java_tool
from tidemill.errors import InternalError

# Validity of a certificate in days: longer than any demo, too short to be mistaken for a real one.
VALID_DAYS = 30

# Seconds for one keytool call; about 0.5 on an idle machine.
KEYTOOL_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Certificates:
    """The server's key store, and the authority that clients must trust.

    Args:
        key_store: PKCS12 with the server's key and chain.
        authority: PEM file of the authority's certificate.
    """

    key_store: KeyStore
    authority: Path


def make_certificates(folder: Path) -> Certificates:
    """Create an authority and a certificate for `localhost` and `127.0.0.1` in `folder`.

    Raises:
        InternalError: TIDE-DEV-010, if keytool fails, e.g. because the files exist already.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = KeyStore(folder / "server.p12", secrets.token_urlsafe(16))
    authority = folder / "authority.pem"
    make_key = ["-genkeypair", "-keyalg", "RSA", "-keysize", "2048", "-validity", str(VALID_DAYS)]
    name = "CN=tidemill-dev-authority"
    _keytool(store, [*make_key, "-alias", "authority", "-dname", name, "-ext", "bc:c=ca:true"])
    _keytool(store, ["-exportcert", "-rfc", "-alias", "authority", "-file", str(authority)])
    addresses = "san=dns:localhost,ip:127.0.0.1"
    signed = ["-alias", "server", "-dname", "CN=localhost", "-signer", "authority", "-ext", addresses]
    _keytool(store, [*make_key, *signed])
    # With two keys in one store, the broker may use the wrong one.
    _keytool(store, ["-delete", "-alias", "authority"])
    return Certificates(store, authority)


def _keytool(store: KeyStore, arguments: list[str]) -> None:
    where = ["-keystore", str(store.path), "-storetype", "PKCS12", "-storepass", store.password]
    answer = subprocess.run(
        # keytool ends before an optimizing compiler is useful.
        [java_tool("keytool"), "-J-XX:TieredStopAtLevel=1", *arguments, *where],
        capture_output=True,
        text=True,
        timeout=KEYTOOL_TIMEOUT_SECONDS,
        check=False,
    )
    if answer.returncode != 0:
        raise InternalError(
            "TIDE-DEV-010",
            "keytool could not make the broker's certificate.",
            facts={"step": arguments[0], "answer": answer.stdout.strip() or answer.stderr.strip()},
            fix="use an empty folder; a JDK 17 or 21 must be first on PATH or named by JAVA_HOME",
        )
