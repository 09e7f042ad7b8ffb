"""Canaries in the place of every login of an event hub: no command shows one, whether it works or not."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.certificates import make_certificates
from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tests.support.hub_facts_peer import HubFactsPeer, PeerPartition
from tests.support.token_endpoint import CLIENT_SECRET, NAMESPACE, SigningKey, TokenEndpoint

HUB = {"namespace": "plant-north", "hub": "readings", "endpoint": "127.0.0.1:1", "tier": "standard"}
NAMES = ("by_string", "by_secret", "by_file", "by_identity")
LOOKS = (
    *(("plan", name, "--broker") for name in NAMES),
    *(("status", name, "--broker") for name in NAMES),
    *(("explain", name) for name in NAMES),
    *(("ledger", name) for name in NAMES),
    *(("checkpoint", verb, name) for name in NAMES for verb in ("inspect", "gate")),
    *(("checkpoint", "reset", name, "--from", "latest") for name in NAMES),
    *(("backfill", "plan", name, "--from", "2026-01-01T00:00:00Z") for name in NAMES),
    ("validate",),
    ("status",),
    ("graph",),
    ("queries",),
    ("checkpoint", "doctor", "--broker"),
    ("metrics", "show"),
    ("control", "show"),
)


@dataclass
class Canaries:
    """Four pipelines, each with another login."""

    project: ConfProject
    entra: TokenEndpoint
    by_token: dict[str, str]
    token_file: Path
    patch: pytest.MonkeyPatch

    def declare(self) -> None:
        logins: tuple[dict[str, Any], ...] = (
            {"connection_string": "hub-connection"},
            self.entra.client_secret(),
            {"token_file": str(self.token_file)},
            {"workload_identity": {}},
        )
        for name, login in zip(NAMES, logins, strict=True):
            source = {**HUB, "auth": login, "capture": {"path": "captured"}}
            if "connection_string" not in login:
                source |= self.by_token
            document = {
                "description": "A hub.",
                "owner": "tests",
                "source": {"eventhubs": source},
                "sinks": [{"delta": {"table": f"bronze/{name}"}}],
                "run": {"mode": "stream", "trigger": "5 seconds"},
            }
            self.project.write(f"conf/pipelines/{name}.yaml", yaml.safe_dump(document))

    def break_all(self) -> None:
        """Break all secrets as users do: truncated, expired, mixed up."""
        self.patch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", "Endpoint=sb://canary-key")
        self.patch.setenv("TIDEMILL_SECRET_HUB_CLIENT", "canary-that-is-wrong")
        self.entra.proof = "another"
        self.token_file.write_text("canary.token.canary-signature")

    def seen(self, text: str) -> list[str]:
        """Parts of secrets in a text: of a token, its signature."""
        tokens = [*self.entra.tokens, self.token_file.read_text()]
        return [
            part
            for part in ("canary", CLIENT_SECRET, *(t.rpartition(".")[2] for t in tokens))
            if part in text
        ]


@pytest.fixture
def canaries(project: ConfProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canaries]:
    for module in ("topic_retention", "offsets", "hub_facts"):
        monkeypatch.setattr(f"tidemill.sources.{module}.ANSWER_TIMEOUT_SECONDS", 0.2)
    certificates = make_certificates(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.certificate, certificates.key)
    partitions = {"0": PeerPartition(0, 9)}
    key, token_file = SigningKey(), tmp_path / "token"
    token_file.write_text(key.sign(NAMESPACE, 600))
    with (
        TokenEndpoint(key, lifetime_seconds=600).listening() as entra,
        HubFactsPeer(partitions=partitions).listening() as plain,
        HubFactsPeer(partitions=partitions, tls=tls).listening() as peer,
    ):
        monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", plain.connection_string)
        monkeypatch.setenv("TIDEMILL_SECRET_HUB_CLIENT", CLIENT_SECRET)
        for name, value in entra.pod(tmp_path / "proof").items():
            monkeypatch.setenv(name, value)
        by_token = {"amqp_endpoint": f"127.0.0.1:{peer.port}", "ca_file": str(certificates.authority)}
        found = Canaries(project, entra, by_token, token_file, monkeypatch)
        found.declare()
        yield found


@pytest.mark.parametrize("works", [True, False], ids=["all work", "all are wrong"])
def test_no_command_shows_a_part_of_a_secret(
    tidemill: CommandLine, project: ConfProject, canaries: Canaries, works: bool
) -> None:
    if not works:
        canaries.break_all()
    shown = {}
    for words in LOOKS:
        tidemill(*words)
        text = tidemill.out + tidemill.err
        assert text, words
        shown[words] = canaries.seen(text)
    assert {words: parts for words, parts in shown.items() if parts} == {}
    assert bool(canaries.entra.tokens) == works
    written = [
        file for file in project.folder.rglob("*") if file.is_file() and canaries.seen(file.read_text())
    ]
    assert written == []
