"""Request a token from Microsoft Entra ID: OAuth 2.0 client credentials, by a secret or an assertion.

Of the endpoint's answer, only its codes are quoted, because descriptions may repeat the request.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from tidemill.errors import SpecError, TidemillError, UnavailableError
from tidemill.sources.web_token import AccessToken, check_begun, read_token, wrong_clock

# Maximum time for an answer, in seconds. A user may wait at a prompt; Entra answers in less than one.
ANSWER_TIMEOUT_SECONDS = 10.0
# Far above the size of any token.
MAX_ANSWER_BYTES = 2**20

# Numbers of Entra's error messages (AADSTS…). Entra says that they may change; if none of these is found,
# OAuth's own `error` decides.
_NO_SUCH_TENANT = frozenset({90002, 900023, 900021})
_ASSERTION_OUT_OF_TIME = frozenset({700024})
_OAUTH_ERROR = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True)
class Application:
    """An application of a directory, at the endpoint that issues its tokens.

    Args:
        authority: URL without a trailing slash.
        tenant: The directory.
        client: The application's id.
        proven_by: Readable source of its proof; never the proof itself.
    """

    authority: str
    tenant: str
    client: str
    proven_by: str

    @property
    def address(self) -> str:
        """Return the URL of the endpoint."""
        return f"{self.authority}/{self.tenant}/oauth2/v2.0/token"

    @property
    def facts(self) -> dict[str, object]:
        """Return the facts for errors."""
        return {
            "authority": self.authority,
            "tenant": self.tenant,
            "client": self.client,
            "proven_by": self.proven_by,
        }


def ask_for_token(application: Application, proof: Mapping[str, str], scope: str) -> AccessToken:
    """Request a new token.

    Args:
        application: The application.
        proof: `client_secret`, or `client_assertion` with its type.
        scope: Scope of the token.

    Raises:
        SpecError: TIDE-HUB-030, if the proof is refused; 031, if there is no such tenant.
        UnavailableError: TIDE-HUB-032, if no token is returned; 035, if it is not valid by this clock.
    """
    form = {"grant_type": "client_credentials", "client_id": application.client, "scope": scope, **proof}
    request = Request(  # noqa: S310  # the pattern allows http(s) only
        application.address, urlencode(form).encode(), {"Accept": "application/json"}
    )
    opener = build_opener(HTTPSHandler(context=ssl.create_default_context()), _NoRedirects())
    try:
        with opener.open(request, timeout=ANSWER_TIMEOUT_SECONDS) as response:
            token = read_token(str(json.loads(response.read(MAX_ANSWER_BYTES))["access_token"]))
    except HTTPError as error:
        with error:
            raise _refused(application, error) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _silent(application, type(reason).__name__) from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _silent(application, "no token in the answer") from None
    _check_times(application, token)
    return token


def _check_times(application: Application, token: AccessToken) -> None:
    now = time.time()
    if token.expires_at <= now:
        raise wrong_clock(application.facts, f"at least {now - token.expires_at:.0f} s ahead")
    check_begun(token, now, application.facts)


def _refused(application: Application, error: HTTPError) -> TidemillError:
    said, numbers = _said(error)
    facts = {**application.facts, "status": error.code, "error": said, "codes": _named(numbers)}
    if error.code == HTTPStatus.TOO_MANY_REQUESTS or error.code >= 500 or said == "temporarily_unavailable":
        return _silent(application, f"HTTP {error.code}")
    if numbers & _ASSERTION_OUT_OF_TIME:
        return wrong_clock(application.facts, "wrong, or what renews the proof's file stands still")
    if numbers & _NO_SUCH_TENANT:
        return SpecError(
            "TIDE-HUB-031",
            "Microsoft Entra knows no such tenant.",
            facts=facts,
            fix="correct `tenant` of the login, or `authority` if it is a tenant of a sovereign cloud",
            runbook="source-unavailable",
        )
    if not said:
        return _silent(application, f"HTTP {error.code}, not as a token endpoint answers")
    return SpecError(
        "TIDE-HUB-030",
        "Microsoft Entra refuses the application, or what it proves itself by.",
        facts=facts,
        fix="of a client secret: its value, not its id, and a new one if it has expired; of a workload "
        "identity: a federated credential for this very service account",
        runbook="source-unavailable",
    )


def _silent(application: Application, reason: str) -> UnavailableError:
    return UnavailableError(
        "TIDE-HUB-032",
        "No token comes from the token endpoint.",
        facts={**application.facts, "reason": reason},
        fix="let this machine reach the authority by HTTPS; the driver tries again by itself",
        runbook="source-unavailable",
    )


def _said(error: HTTPError) -> tuple[str, frozenset[int]]:
    """Return OAuth's error code and Entra's numbers; empty if the answer is not from a token endpoint."""
    try:
        answer: Any = json.loads(error.read(MAX_ANSWER_BYTES))
        said, numbers = str(answer["error"]), answer.get("error_codes") or ()
        codes = frozenset(number for number in numbers if isinstance(number, int))
    except (OSError, HTTPException, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "", frozenset()
    return (said if _OAUTH_ERROR.fullmatch(said) else ""), codes


def _named(numbers: frozenset[int]) -> str:
    return ", ".join(f"AADSTS{number}" for number in sorted(numbers)) or "none"


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, because a redirect would send the proof to its target."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None
