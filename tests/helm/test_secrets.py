"""Secrets are named, not made; only a trial makes its own."""

from __future__ import annotations

import base64
import json

import pytest

from tests.support.chart import ChartError, of_kind, render


@pytest.mark.parametrize("files", [("azure",), ("external-airflow",)])
def test_no_secret_is_rendered_unless_asked_for(files: tuple[str, ...]) -> None:
    assert of_kind(render(*files), "Secret") == {}


def test_a_trial_generates_what_is_not_named() -> None:
    secrets = of_kind(render("evaluation"), "Secret")
    assert {name: set(secret["data"]) for name, secret in secrets.items()} == {
        "tidemill-rpc": {"secret"},
        "tidemill-airflow": {"fernet-key", "jwt-secret", "api-secret-key", "admin-password"},
        "tidemill-database": {"password", "connection"},
    }


def test_a_trial_takes_a_named_secret_instead() -> None:
    documents = render("evaluation", values={"secrets": {"airflow": "mine", "rpc": "ours"}})
    assert set(of_kind(documents, "Secret")) == {"tidemill-database"}


def test_the_fernet_key_is_one() -> None:
    secret = of_kind(render("evaluation"), "Secret")["tidemill-airflow"]
    key = base64.b64decode(secret["data"]["fernet-key"])
    assert len(base64.urlsafe_b64decode(key)) == 32


def test_generated_values_stand_in_secrets_only() -> None:
    documents = render("evaluation")
    values = [
        base64.b64decode(value).decode()
        for secret in of_kind(documents, "Secret").values()
        for value in secret["data"].values()
    ]
    others = json.dumps([each for each in documents if each["kind"] != "Secret"])
    assert [value for value in values if value in others] == []


@pytest.mark.parametrize("missing", ["database", "airflow", "rpc"])
def test_a_secret_that_nobody_names_is_asked_for(missing: str) -> None:
    with pytest.raises(ChartError, match=rf"secrets\.{missing}: name an existing Secret"):
        render("azure", values={"secrets": {missing: ""}})
