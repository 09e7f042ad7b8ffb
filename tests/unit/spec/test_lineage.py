"""Catalog and lineage service of an environment."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.support.declared import declared
from tidemill.names import catalogued_name
from tidemill.spec.environment import EnvironmentSpec


def refused(**keys: object) -> str:
    with pytest.raises(ValidationError) as caught:
        EnvironmentSpec.model_validate({"root": "data", **keys})
    return str(caught.value)


def test_the_defaults_send_nothing_and_name_nothing() -> None:
    environment = EnvironmentSpec.model_validate({"root": "data"})
    assert (environment.catalog, environment.lineage) == (None, None)
    given = {"root": "data", "lineage": {"url": "https://marquez.example.com/base"}}
    lineage = EnvironmentSpec.model_validate(given).lineage
    assert lineage is not None
    assert (lineage.namespace, lineage.every, lineage.api_key) == ("tidemill", timedelta(minutes=1), None)


@pytest.mark.parametrize("url", ["marquez:5000", "https://joe@marquez", "https://marquez?key=1", "ftp://m"])
def test_an_address_holds_no_user_and_no_query(url: str) -> None:
    assert "lineage.url" in refused(lineage={"url": url})


def test_a_key_is_sent_encrypted_or_to_this_machine() -> None:
    message = refused(lineage={"url": "http://marquez:5000", "api_key": "key"})
    assert "credentials are sent over https only" in message
    assert "no effect" in refused(lineage={"url": "http://marquez:5000", "ca_file": "ca.pem"})
    for url in ("https://marquez:5000", "http://localhost:5000"):
        given = {"root": "data", "lineage": {"url": url, "api_key": "key"}}
        assert EnvironmentSpec.model_validate(given).lineage is not None


@pytest.mark.parametrize("catalog", ["Lake", "my-lake", "a.b", "1a", "", "l" * 64])
def test_a_catalog_is_a_name_that_needs_no_quotes(catalog: str) -> None:
    assert "catalog" in refused(catalog=catalog)


def test_a_table_has_its_name_in_the_catalog() -> None:
    assert catalogued_name("lake", "silver/orders") == "lake.silver.orders"
    assert catalogued_name(None, "silver/orders") == "silver/orders"


def test_an_environment_without_them_has_the_definition_that_it_had(tmp_path: Path) -> None:
    without = declared(tmp_path).definition_digest
    assert declared(tmp_path, environment={"catalog": None, "lineage": None}).definition_digest == without
    assert declared(tmp_path, environment={"catalog": "lake"}).definition_digest != without
