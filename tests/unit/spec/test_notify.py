"""Channels of an environment file: allowed declarations, which cannot contain an address or a secret."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tidemill.spec.notify import Channels

CHANNELS = TypeAdapter(Channels)


def test_channels_are_told_apart_by_names_without_secrets() -> None:
    channels = CHANNELS.validate_python(
        [
            {"log": {}},
            {"webhook": {"connection": "oncall"}},
            {"email": {"to": ["ann@example.com", "bob@example.com"]}},
            {"slack": {"channel": "#streams"}},
        ]
    )
    assert [channel.name for channel in channels] == [
        *("log", "webhook oncall", "email smtp_default to ann@example.com, bob@example.com"),
        "slack slack_default #streams",
    ]


@pytest.mark.parametrize(
    "declared",
    [
        {"webhook": {}},
        {"webhook": {"connection": "https://hooks.example.com/T0/B0"}},
        {"webhook": {"connection": "oncall", "url": "https://hooks.example.com"}},
        {"webhook": {"connection": "../oncall"}},
        {"webhook": {"connection": "{{ 7*7 }}"}},
        {"email": {"to": []}},
        {"email": {"to": ["ann@example.com\nBcc: eve@example.com"]}},
        {"email": {"to": ["ann@example.com\n"]}},
        {"email": {"to": ["ann"]}},
        {"slack": {"channel": "<!channel>"}},
        {"log": {}, "webhook": {"connection": "oncall"}},
        {"pager": {}},
        "log",
    ],
)
def test_what_is_no_channel_is_refused(declared: Any) -> None:
    with pytest.raises(ValidationError):
        CHANNELS.validate_python([declared])


def test_nobody_is_told_twice() -> None:
    with pytest.raises(ValidationError, match="webhook oncall"):
        CHANNELS.validate_python([{"webhook": {"connection": "oncall"}}] * 2)
