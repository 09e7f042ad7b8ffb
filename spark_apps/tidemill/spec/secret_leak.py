"""Detection of secrets in conf files before anything can print them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidemill.errors import SpecError

if TYPE_CHECKING:
    from tidemill.spec.yaml_file import YamlFile

Location = tuple[int | str, ...]

# Connection strings of Azure, JAAS lines, SAS signatures, user:password in a URI, private keys, and JSON
# web tokens. Names of secrets contain none of these.
_SIGNS = re.compile(
    r"shared-?access-?key\s*=|account-?key\s*=|shared-?access-?signature\s*=|\bpass(?:word|wd)?\s*=|\bpwd\s*="
    r"|client-?secret\s*=|[?&;]sig=|://[^/\s:@]+:[^/\s@]+@"
    r"|-----begin [a-z ]*private key|\beyj[\w-]{10,}\.[\w-]+\.",
    re.IGNORECASE,
)


def refuse_secrets(file: YamlFile) -> None:
    """Check every key and value of a file.

    Raises:
        SpecError: TIDE-SPEC-004 with the place, without the value.
    """
    for location in _leaks(file.content, ()):
        raise SpecError(
            "TIDE-SPEC-004",
            "A conf file holds what looks like a secret.",
            facts={
                "file": f"{file.path}:{file.line_of(location)}",
                "key": ".".join(map(str, location)) or "(file)",
            },
            fix="write the name of a secret and put its value into the secrets folder or the variable "
            "TIDEMILL_SECRET_<NAME>; then change the secret: it may already be in the version history",
        )


def _leaks(content: Any, location: Location) -> Iterator[Location]:
    """Yield the places of suspicious values. For a suspicious key, it is the map, so that no key is shown."""
    if isinstance(content, dict):
        for key, value in content.items():
            if _SIGNS.search(key):
                yield location
            yield from _leaks(value, (*location, key))
    elif isinstance(content, list):
        for index, item in enumerate(content):
            yield from _leaks(item, (*location, index))
    elif isinstance(content, str) and _SIGNS.search(content):
        yield location
