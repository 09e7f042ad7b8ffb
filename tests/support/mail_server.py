"""A mail server on the loopback interface that keeps its mails (the part of RFC 5321 that smtplib uses)."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import cast

from tidemill.dev.ports import LOOPBACK

ANSWERS = {"QUIT": "221 bye", "AUTH": "502 not here", "STARTTLS": "502 not here"}


@dataclass(frozen=True)
class Mail:
    """A mail and its envelope."""

    sender: str
    to: list[str]
    message: EmailMessage

    @property
    def text(self) -> str:
        part = self.message.get_body(("html", "plain"))
        assert part is not None
        return str(part.get_content())


class MailServer:
    """Takes mails.

    Attributes:
        mails: Accepted mails.
        refuses: True if the server refuses every recipient.
    """

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self.refuses = False
        server = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.say("220 tests")
                sender, to = "", list[str]()
                for line in self.rfile:
                    verb, _, rest = line.decode().strip().partition(" ")
                    verb = verb.upper()
                    if verb == "MAIL":
                        sender, to = _address(rest), []
                    elif verb == "RCPT":
                        to.append(_address(rest))
                    elif verb == "DATA":
                        self.say("354 go on")
                        server.mails.append(Mail(sender, to, self.message()))
                    refused = verb == "RCPT" and server.refuses
                    self.say("550 nobody of this name" if refused else ANSWERS.get(verb, "250 ok"))
                    if verb == "QUIT":
                        return

            def say(self, line: str) -> None:
                self.wfile.write(f"{line}\r\n".encode())

            def message(self) -> EmailMessage:
                lines = []
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(line.removeprefix(b"."))
                return cast(EmailMessage, message_from_bytes(b"".join(lines), policy=policy.default))

        self._server = socketserver.ThreadingTCPServer((LOOPBACK, 0), Session)
        self._server.daemon_threads = True
        serve = {"poll_interval": 0.01}
        threading.Thread(target=self._server.serve_forever, kwargs=serve, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _address(path: str) -> str:
    return path.partition("<")[2].partition(">")[0]


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """Yield a server during a `with` block."""
    server = MailServer()
    try:
        yield server
    finally:
        server.stop()
