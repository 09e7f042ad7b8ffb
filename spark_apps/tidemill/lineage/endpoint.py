"""The destination of events: one POST each, by OpenLineage's own client."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tidemill.errors import SpecError, UnavailableError
from tidemill.spec.project import Environment
from tidemill.spec.secret_mask import mask_secrets
from tidemill.spec.secret_value import read_secret

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent
    from openlineage.client.transport.http import HttpTransport

# Seconds to connect, and between two bytes of the answer. Only a driver that ends waits for it, at most as
# long as engine/lineage_sender.py allows; such services answer in milliseconds.
TIMEOUT_SECONDS = 3.0

_REASON_CHARACTERS = 200
# Characters that a header can contain.
_HEADER = re.compile(r"[\x21-\x7e]+")


@dataclass
class Endpoint:
    """A service that receives events.

    Args:
        url: Its address.
        api_key: Its API key; None if it requires none.
        ca_file: PEM file of the authority.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def post(self, event: dict[str, Any]) -> None:
        """Send one event.

        Raises:
            UnavailableError: TIDE-LINE-001, if it was not accepted.
        """
        try:
            # It sends dictionaries unchanged.
            self._transport.emit(cast("RunEvent", event))
        except (OSError, RuntimeError, ValueError) as error:
            # All exceptions of requests are OSErrors; their texts contain addresses and the reason.
            reason = mask_secrets(f"{type(error).__name__}: {error}")
            raise UnavailableError(
                "TIDE-LINE-001",
                "The lineage service does not take events.",
                facts={"url": self.url, "reason": " ".join(reason.split())[:_REASON_CHARACTERS]},
                fix="see the service, or correct `lineage` of the environment; no batch waits for it, and "
                "`tidemill lineage emit PIPELINE --since MOMENT` sends what is missing",
            ) from error

    @cached_property
    def _transport(self) -> HttpTransport:
        from openlineage.client.transport.http import (
            ApiKeyTokenProvider,
            HttpConfig,
            HttpSslContextConfig,
            HttpTransport,
            TokenProvider,
        )

        auth = TokenProvider({}) if self.api_key is None else ApiKeyTokenProvider({"api_key": self.api_key})
        config = HttpConfig(
            # A path in the address is kept only if it ends in a slash.
            url=self.url.rstrip("/") + "/",
            timeout=TIMEOUT_SECONDS,
            auth=auth,
            # The next event includes the content of a lost one.
            retry={"total": 0},
            ssl_context=HttpSslContextConfig(ca_cert_path=self.ca_file),
        )
        return HttpTransport(config)


def endpoint_of(environment: Environment) -> Endpoint | None:
    """Return the environment's service, with its key; None if it names none.

    Raises:
        SpecError: TIDE-SPEC-030, if the key has no value here; TIDE-LINE-002, if it cannot be sent.
    """
    declared = environment.spec.lineage
    if declared is None:
        return None
    api_key = None if declared.api_key is None else read_secret(environment, declared.api_key)
    if api_key is not None and not _HEADER.fullmatch(api_key):
        # Checked before it is sent, because the error about an invalid header quotes its value.
        raise SpecError(
            "TIDE-LINE-002",
            "The API key of the lineage service cannot be sent.",
            facts={"secret": declared.api_key, "found": "a space, a line break, or a character beyond ASCII"},
            fix="correct the secret that `lineage.api_key` of the environment names",
        )
    ca_file = None if declared.ca_file is None else str(environment.project.folder / declared.ca_file)
    return Endpoint(declared.url, api_key, ca_file)
