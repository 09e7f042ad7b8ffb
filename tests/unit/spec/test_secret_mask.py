"""Secrets that are hidden in Spark's messages."""

from __future__ import annotations

import pytest

from tests.support.declared import declared
from tidemill.spec.secret_mask import MASK, mask_document, mask_secrets
from tidemill.spec.secret_value import read_secret


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "Endpoint=sb://x/;SharedAccessKeyName=me;SharedAccessKey=c4n/4ry=",
            "Endpoint=sb://x/;SharedAccessKeyName=me;SharedAccessKey=***",
        ),
        ('required username="me" password="c4n 4ry";', 'required username="me" password=***;'),
        ("[https://x/?sv=1&sig=c4n4ry%3D&se=2]", "[https://x/?sv=1&sig=***&se=2]"),
        ("AccountKey=c4n4ry==;EndpointSuffix=x", "AccountKey=***;EndpointSuffix=x"),
        ("jdbc://me:c4n4ry@host/db", "jdbc://***@host/db"),
        ("Bearer eyJhbGciOiJIUzI1NiJ9.c4n4ry.c4n4ry", "Bearer ***"),
        ("{'client_secret': 'c4n4ry'}", "{'client_secret': ***}"),
        ("Project [token_count#1, signal#2, password#3]", "Project [token_count#1, signal#2, password#3]"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, shown: str) -> None:
    assert mask_secrets(text) == shown


def test_a_secret_that_was_read_is_hidden_wherever_it_stands(tmp_path: object) -> None:
    environment = declared(tmp_path, "orders").environment  # type: ignore[arg-type]
    value = "quite an (odd) value: 1"
    assert mask_secrets(value) == value
    assert read_secret(environment, "broker", {"TIDEMILL_SECRET_BROKER": value}) == value
    document = {"a": [f"x{value}y", 1, None], value: {"b": value}}
    assert mask_document(document) == {"a": [f"x{MASK}y", 1, None], MASK: {"b": MASK}}
