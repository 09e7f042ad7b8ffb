from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject

SECRETS = [
    "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=S3CR3T+/=",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=S3CR3T==",
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="S3CR3T";',
    "https://a.blob.core.windows.net/c?sv=2020&sig=S3CR3T",
    "kafka://user:S3CR3T@host:9092",
    "PWD=S3CR3T",
    "-----BEGIN RSA PRIVATE KEY----- S3CR3T",
    "eyJhbGciOiJIUzI1NiJ9.S3CR3T.x",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("path", ["conf/environments/local.yaml", "conf/pipelines/orders.yaml"])
def test_a_secret_in_a_conf_file_is_refused_without_being_shown(
    project: ConfProject, path: str, secret: str
) -> None:
    text = (project.folder / path).read_text()
    project.write(path, f"{text}\nanywhere: {{deep: [x, '{secret}']}}\n")
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-004"
    assert error.facts["key"] == "anywhere.deep.1"
    assert str(error.facts["file"]).endswith(f":{len(text.splitlines()) + 2}")
    assert "S3CR3T" not in str(error)


def test_a_secret_that_became_a_key_is_not_shown_either(project: ConfProject) -> None:
    project.replace("owner: tests", "owner: tests\nAccountKey=S3CR3T: x")
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-004"
    assert "S3CR3T" not in str(error)


def test_a_connection_string_in_place_of_its_name_is_refused(project: ConfProject) -> None:
    project.replace(
        "kafka:\n    topic: orders",
        f"eventhubs: {{namespace: n, hub: h, auth: {{connection_string: '{SECRETS[0]}'}}}}",
    )
    assert project.refusal().error_id == "TIDE-SPEC-004"


@pytest.mark.parametrize("name", ["Not A Name", "Endpoint=sb://x", "../x", "a" * 65])
def test_the_name_of_a_secret_is_a_plain_name(project: ConfProject, name: str) -> None:
    project.replace(
        "kafka:\n    topic: orders",
        f"eventhubs: {{namespace: n, hub: h, auth: {{connection_string: '{name}'}}}}",
    )
    error = project.refusal()
    assert error.facts["key"] == "source.eventhubs.auth.connection_string"
    assert name not in str(error)


def test_the_words_of_security_alone_are_no_secret(project: ConfProject) -> None:
    project.write(
        "conf/environments/local.yaml",
        "root: abfss://c@account.dfs.core.windows.net/x\n"
        "kafka:\n  bootstrap_servers: 'a:9093'\n"
        "  security: {protocol: SASL_SSL, mechanism: PLAIN, username: $ConnectionString, "
        "password: hub-password}\n",
    )
    assert project.resolve().environment.kafka.security.password == "hub-password"
