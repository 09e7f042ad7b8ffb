"""Read a schema registry by its REST API, as documented by Confluent and supported by others.

| request | answer |
|---|---|
| `/schemas/ids/7` | `schema`, `schemaType`, and `references`, each with `name`, `subject`, `version` |
| `/subjects/orders-value/versions/3` | the same, with `id`, `subject`, `version` |
| the same with `?format=serialized` | for Protobuf, `schema` is a file's descriptor in base64, not its text |

`schemaType` is left out for Avro. For an object that does not exist, the answer is a 404 with the registry's
own `error_code`. Any other 404 comes from a proxy, or from a wrong address.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from tidemill.errors import SpecError, UnavailableError
from tidemill.spec.project import Environment
from tidemill.spec.registry import Registry
from tidemill.spec.secret_value import read_secret

# Maximum time for one answer, in seconds. A task waits for it, so it is far below the time in which a driver
# must make progress (10 minutes, engine/liveness.py). Registries answer in milliseconds.
TIMEOUT_SECONDS = 10.0
# Far above the size of any schema.
MAX_ANSWER_BYTES = 8 * 2**20

# The registry's error codes for: no such subject, version, schema.
_NOT_FOUND = frozenset({40401, 40402, 40403})
_REASON_CHARACTERS = 200
# Valid characters of a header.
_HEADER = re.compile(r"[\x20-\x7e]+")

AVRO, PROTOBUF = "AVRO", "PROTOBUF"


@dataclass(frozen=True)
class Registered:
    """One schema, as the registry returns it.

    Args:
        kind: AVRO, PROTOBUF or another one.
        schema: Its text; for Protobuf the descriptor in base64.
        references: Schemas that it uses: name, subject, version.
    """

    kind: str
    schema: str
    references: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class RegistryClient:
    """Reads one registry; it can be sent to tasks.

    Args:
        address: URL without a trailing slash.
        authorization: Value of the header; None without credentials.
        ca_file: PEM file of the authority.
    """

    address: str
    authorization: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def __post_init__(self) -> None:
        # Checked before sending, because an error about an invalid header quotes its value.
        if self.authorization is not None and not _HEADER.fullmatch(self.authorization):
            raise SpecError(
                "TIDE-SRC-021",
                "The credentials of the schema registry cannot be sent.",
                facts={"registry": self.address, "found": "a line break, or a character that is not ASCII"},
                fix="correct the secret that `schema_registry` of the environment names",
            )

    def by_id(self, number: int) -> Registered | None:
        """Return the schema with a number; None if the registry has none.

        Raises:
            UnavailableError: TIDE-SRC-020, if it does not answer, or not as a registry.
            SpecError: TIDE-SRC-021, if it refuses the credentials.
        """
        return self._schema(f"/schemas/ids/{number}")

    def by_version(self, subject: str, version: int) -> Registered | None:
        """Return a version of a subject; None if the registry has none. Raises as `by_id` does."""
        return self._schema(f"/subjects/{quote(subject, safe='')}/versions/{version}")

    def _schema(self, path: str) -> Registered | None:
        found = self._get(path)
        if found is not None and found.get("schemaType") == PROTOBUF:
            found = self._get(f"{path}?format=serialized")
        if found is None:
            return None
        try:
            references = tuple(
                (str(one["name"]), str(one["subject"]), int(one["version"]))
                for one in found.get("references") or ()
            )
            if not isinstance(found["schema"], str):
                raise TypeError("the schema is no text")
            return Registered(found.get("schemaType") or AVRO, found["schema"], references)
        except (KeyError, TypeError, ValueError) as error:
            raise self._unavailable(path, f"no schema in the answer: {type(error).__name__}") from error

    def _get(self, path: str) -> dict[str, Any] | None:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        request = Request(self.address + path, headers=headers)  # noqa: S310  # the pattern allows http(s) only
        try:
            with self._opener().open(request, timeout=TIMEOUT_SECONDS) as response:
                answer = json.loads(response.read(MAX_ANSWER_BYTES))
        except HTTPError as error:
            with error:
                self._refuse_unless_missing(path, error)
            return None
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            reason = getattr(error, "reason", None) or error
            raise self._unavailable(path, f"{type(reason).__name__}: {reason}") from error
        if not isinstance(answer, dict):
            raise self._unavailable(path, "the answer is no JSON object")
        return answer

    def _refuse_unless_missing(self, path: str, error: HTTPError) -> None:
        """Raise an error unless the registry itself says that the object does not exist."""
        if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise SpecError(
                "TIDE-SRC-021",
                "The schema registry refuses the credentials.",
                facts={"registry": self.address, "status": error.code},
                fix="correct the secret that `schema_registry` of the environment names, or its rights",
            ) from error
        try:
            code = json.loads(error.read(MAX_ANSWER_BYTES)).get("error_code")
        except (OSError, HTTPException, ValueError, AttributeError, RecursionError):
            code = None
        if error.code != HTTPStatus.NOT_FOUND or code not in _NOT_FOUND:
            raise self._unavailable(path, f"HTTP {error.code}") from error

    def _unavailable(self, path: str, reason: str) -> UnavailableError:
        one_line = " ".join(reason.split())[:_REASON_CHARACTERS]
        return UnavailableError(
            "TIDE-SRC-020",
            "The schema registry does not answer.",
            facts={"registry": self.address, "asked": path, "reason": one_line},
            fix="see the registry, or correct `schema_registry.url`; a batch is repeated and nothing is lost",
        )

    def _opener(self) -> OpenerDirector:
        if not self.address.startswith("https:"):
            return build_opener(_NoRedirects())
        # Takes 20 ms or more for the authorities of the machine.
        context = ssl.create_default_context(cafile=self.ca_file)
        return build_opener(HTTPSHandler(context=context), _NoRedirects())


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, because a redirect would send the credentials to its target."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def registry_of(environment: Environment) -> RegistryClient:
    """Return the environment's registry, with its secret.

    Raises:
        SpecError: TIDE-SPEC-068, if the environment names none; 030, if the secret has no value here.
    """
    declared = environment.schema_registry
    ca_file = None
    if declared.ca_file is not None:
        ca_file = str(environment.project.folder / declared.ca_file)
    return RegistryClient(declared.address, _authorization(environment, declared), ca_file)


def _authorization(environment: Environment, declared: Registry) -> str | None:
    if declared.token is not None:
        return f"Bearer {read_secret(environment, declared.token).strip()}"
    if declared.password is not None:
        pair = f"{declared.username}:{read_secret(environment, declared.password)}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    return None
