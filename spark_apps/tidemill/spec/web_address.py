"""URLs of HTTP services that an environment names, and the check of their encryption."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

# Without user and query, which are mistakes or secrets. With a path, because some services have one.
WEB_ADDRESS_PATTERN = r"^https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~-]+)*/?$"

WebAddress = Annotated[str, Field(pattern=WEB_ADDRESS_PATTERN)]

_LOOPBACK = frozenset({"localhost", "127.0.0.1"})


def check_encrypted(address: str, ca_file: str | None, *, has_credentials: bool) -> None:
    """Check that credentials are sent only over https, or to this machine.

    Raises:
        ValueError: If they would be sent unencrypted, or if a certificate authority would have no effect.
    """
    parts = urlsplit(address)
    if parts.scheme == "https":
        return
    if ca_file is not None:
        raise ValueError("http is not encrypted, so `ca_file` would have no effect")
    if has_credentials and parts.hostname not in _LOOPBACK:
        raise ValueError("credentials are sent over https only, or to this machine")
