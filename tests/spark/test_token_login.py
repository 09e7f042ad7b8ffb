"""Login of Kafka's Java clients by a short-lived token: it is read again each time and never logged."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.jvm_programs import java_program
from tests.support.token_endpoint import (
    CLIENT,
    CLIENT_SECRET,
    FEDERATED_CLIENT,
    NAMESPACE,
    TENANT,
    SigningKey,
    TokenEndpoint,
)
from tidemill.sources.web_token import read_token

Ask = Callable[[], str]


@contextmanager
def login(**options: str) -> Iterator[Ask]:
    """Yield one login, asked as often as wanted."""
    program = java_program("TokenLoginProbe", *(f"{name}={value}" for name, value in options.items()))
    try:
        yield lambda: _answer(program)
    finally:
        program.communicate()


def _answer(program: subprocess.Popen[str]) -> str:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    return program.stdout.readline().strip()


def test_a_token_file_is_read_at_each_login_and_an_expired_token_is_an_error(tmp_path: Path) -> None:
    key, file = SigningKey(), tmp_path / "token"
    with login(tokenFile=str(file)) as ask:
        assert ask() == f"error java.nio.file.NoSuchFileException: {file}"
        for lifetime in (600, 700):
            token = key.sign(NAMESPACE, lifetime, subject="reader")
            file.write_text(f"{token}\n")
            assert ask() == f"reader {int(read_token(token).expires_at) * 1000} {token}"
        wrong = {
            "": "empty",
            "canary": "no JSON web token",
            "a.canary.c": "no JSON web token",
            "a.e30.c": "when",
        }
        for content, said in {**wrong, key.sign(NAMESPACE, 0): "has expired"}.items():
            file.write_text(content)
            answer = ask()
            assert answer.startswith("error java.io.IOException: ")
            assert said in answer
            assert "canary" not in answer
            assert "eyJ" not in answer


def test_the_proof_of_a_workload_identity_is_read_at_each_exchange(tmp_path: Path) -> None:
    file = tmp_path / "proof"
    file.write_text("canary.of-yesterday")
    with TokenEndpoint(SigningKey()).listening() as entra:
        options = {
            "assertionFile": str(file),
            "clientId": FEDERATED_CLIENT,
            "scope": f"{NAMESPACE}/.default",
            "tokenEndpoint": f"{entra.address}/{TENANT}/oauth2/v2.0/token",
        }
        with login(**options) as ask:
            assert ask() == "error java.io.IOException: The token endpoint answers with HTTP 401."
            file.write_text(f"{entra.proof}\n")
            told = ask()
            (token,) = entra.issued[FEDERATED_CLIENT]
            assert told.startswith(f"{FEDERATED_CLIENT} ")
            assert told.endswith(f" {token}")
            entra.broken = 200
            assert ask() == "error java.io.IOException: The token endpoint's answer holds no token."


def test_a_client_secret_is_shown_at_each_login_and_a_busy_endpoint_is_asked_again() -> None:
    with TokenEndpoint(SigningKey()).listening() as entra:
        options = {
            "clientId": CLIENT,
            "clientSecret": CLIENT_SECRET,
            "scope": f"{NAMESPACE}/.default",
            "tokenEndpoint": f"{entra.address}/{TENANT}/oauth2/v2.0/token",
        }
        with login(**options) as ask:
            entra.busy = 2
            assert ask().endswith(f" {entra.issued[CLIENT][0]}")
            assert ask().endswith(f" {entra.issued[CLIENT][1]}")
            entra.busy = 3
            assert ask() == "error java.io.IOException: The token endpoint answers with HTTP 503."
