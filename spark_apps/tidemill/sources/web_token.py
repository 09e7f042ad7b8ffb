"""JSON web tokens for brokers: their times only. Nothing is verified here."""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass, field

from tidemill.errors import UnavailableError

# Maximum difference of clocks, in seconds. A healthy machine differs by milliseconds; Entra's tokens are
# valid from the second of their creation.
CLOCK_LEEWAY_SECONDS = 60.0


@dataclass(frozen=True)
class AccessToken:
    """A token and its times, in seconds since 1970."""

    value: str = field(repr=False)
    expires_at: float
    not_before: float = 0.0


def read_token(text: str) -> AccessToken:
    """Return a token with its times.

    Raises:
        ValueError: If the text is not a token. The message never quotes it.
    """
    parts = text.split(".")
    if len(parts) != 3 or not text.isascii() or any(sign.isspace() for sign in text):
        raise ValueError("not a JSON web token")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        times = float(claims["exp"]), float(claims.get("nbf") or 0)
        if not all(map(math.isfinite, times)):
            raise ValueError("no time")
        return AccessToken(text, *times)
    except (binascii.Error, ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        # Without its cause, which may quote the token.
        raise ValueError("a JSON web token that does not say when it expires") from None


def check_begun(token: AccessToken, now: float, facts: dict[str, object]) -> None:
    """Raise an error if a token is not valid yet by this machine's clock.

    Raises:
        UnavailableError: TIDE-HUB-035, if it is not.
    """
    if token.not_before > now + CLOCK_LEEWAY_SECONDS:
        raise wrong_clock(facts, f"{token.not_before - now:.0f} s behind")


def wrong_clock(facts: dict[str, object], clock: str) -> UnavailableError:
    """Return the error for a clock that differs from the token issuer's."""
    return UnavailableError(
        "TIDE-HUB-035",
        "By the clock of this machine, a new token does not hold.",
        facts={**facts, "clock_of_this_machine": clock},
        fix="set the machine's clock (NTP); the driver tries again by itself",
        runbook="source-unavailable",
    )
