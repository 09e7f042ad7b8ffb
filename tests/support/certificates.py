"""A certificate for servers on the loopback interface, and the settings with which clients trust it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from tidemill.dev.broker_config import KeyStore
from tidemill.dev.ports import LOOPBACK

_STORE_PASSWORD = "nothing-secret"


@dataclass(frozen=True)
class Certificates:
    """Files of one run.

    Args:
        folder: Folder of the certificates.
    """

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    @property
    def certificate(self) -> Path:
        return self.folder / "certificate.pem"

    @property
    def key(self) -> Path:
        return self.folder / "key.pem"

    @property
    def key_store(self) -> KeyStore:
        """Return the key with its chain, for servers in Java."""
        return KeyStore(self.folder / "server.p12", _STORE_PASSWORD)

    @property
    def trusted_by_openssl_and_rustls(self) -> dict[str, str]:
        """Return variables of a process."""
        return {"SSL_CERT_FILE": str(self.authority)}

    @property
    def trusted_by_java(self) -> dict[str, str]:
        """Return variables of a process."""
        store = self.folder / "authority.p12"
        options = {"trustStore": store, "trustStorePassword": _STORE_PASSWORD, "trustStoreType": "PKCS12"}
        return {
            "JDK_JAVA_OPTIONS": " ".join(f"-Djavax.net.ssl.{name}={value}" for name, value in options.items())
        }


def make_certificates(folder: Path) -> Certificates:
    """Return an authority and one certificate of it, for a day."""
    made = Certificates(folder)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tidemill's tests")])
    authority = (
        _builder(name, authority_key)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    here = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address(LOOPBACK))])
    certificate = (
        _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, LOOPBACK)]), key)
        .issuer_name(name)
        .add_extension(here, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    made.authority.write_bytes(authority.public_bytes(pem))
    made.certificate.write_bytes(certificate.public_bytes(pem))
    made.key.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    encryption = serialization.BestAvailableEncryption(_STORE_PASSWORD.encode())
    trusted = [pkcs12.PKCS12Certificate(authority, b"authority")]
    (folder / "authority.p12").write_bytes(pkcs12.serialize_java_truststore(trusted, encryption))
    chain = pkcs12.serialize_key_and_certificates(b"server", key, certificate, [authority], encryption)
    made.key_store.path.write_bytes(chain)
    return made


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # One machine has one clock; the hour allows for a clock that was set back.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )
