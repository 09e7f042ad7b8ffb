"""Locations of data: a folder below the storage root, or a URI. A location cannot leave its folder."""

from __future__ import annotations

import re
import unicodedata
import warnings
from typing import Annotated
from urllib.parse import unquote

from pydantic import AfterValidator, Field

# Object stores limit keys to 1,024 bytes, including the root and Tidemill's own folders.
MAX_LOCATION = 700

# Maximum bytes of one name in a path on Linux.
MAX_NAME_BYTES = 255

# Maximum bytes of a local root. Linux limits paths to 4,096 bytes, and the longest path below a root (a
# staged table's state file with Hadoop's checksum) has about 400.
MAX_ROOT_BYTES = 3_500

# Percent-encoded characters, which delta-rs (1.6) decodes, so that it uses another folder.
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")

# Schemes that Spark supports with the jars of docker/jars.xml (abfss, file), or with hadoop-aws added (s3a).
DATA_SCHEMES = ("abfss", "abfs", "s3a", "file")
# Schemes of a storage root. obstore must support them as well, and it uses s3 for Spark's s3a.
ROOT_SCHEMES = ("abfss", "abfs", "s3", "s3a", "file")


def check_folder(location: str) -> str:
    """Return the path of data, which is relative to the storage root or a URI.

    An absolute local path is refused, because it would be a different folder on each machine without
    warning. `file:///…` states the same explicitly.

    Raises:
        ValueError: Describes the problem without showing the path.
    """
    _check_characters(location)
    if "://" in location:
        _check_scheme(location, DATA_SCHEMES)
    elif location.startswith(("/", "~")):
        raise ValueError(
            "expected a path relative to the storage root, or a URI such as file:///data or abfss://…"
        )
    if any(_climbs(part) for part in location.split("/")):
        raise ValueError("`..` is refused: a path stays below its folder")
    return location


def check_root(location: str) -> str:
    """Return the storage root: an absolute folder, a folder relative to the project, or a URI.

    Raises:
        ValueError: Describes the problem without showing the path.
    """
    _check_characters(location)
    if "://" in location:
        _check_scheme(location, ROOT_SCHEMES)
        if location.startswith("file://") and not location.startswith("file:///"):
            raise ValueError("a `file:` URI names no host: write file:///, then the absolute path")
        if any(_climbs(part) for part in location.split("/")):
            raise ValueError("`..` is refused in a URI")
    elif location.startswith("~"):
        raise ValueError(
            "`~` is not expanded here; write the whole path, or one relative to the project folder"
        )
    return location


def root_of_clients(root: str) -> str:
    """Return the storage root in the form that all clients understand.

    Hadoop needs `s3a`, and obstore and delta-rs accept `s3` and `s3a`. A `file:` URI becomes a decoded path,
    because Hadoop does not decode URIs and the others do.
    """
    if root.startswith("file://"):
        return unquote(root.removeprefix("file://"))
    return f"s3a://{root.removeprefix('s3://')}" if root.startswith("s3://") else root


def root_fault(root: str) -> tuple[str, str] | None:
    """Return the part of a storage root that a client would misinterpret, and the reason.

    Args:
        root: Absolute path or URI, with the project folder if the declared root is relative to it.
    """
    is_local = "://" not in root
    for part in root.split("/"):
        if fault := _name_fault(part, is_local):
            return part, fault
    if is_local and len(root.encode(errors="surrogateescape")) > MAX_ROOT_BYTES:
        return (
            root,
            f"it is longer than {MAX_ROOT_BYTES:,} bytes, so paths below it would be too long for Linux",
        )
    return None


def _name_fault(name: str, is_local: bool) -> str | None:
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        return "it holds a control character, or is not UTF-8"
    if "\\" in name:
        return "a backslash separates folders for some clients"
    if found := _ESCAPE.search(name):
        return f"{found[0]} stands for another character in a URL, and delta-rs decodes it"
    if not is_local and set("#?") & set(name):
        return "a URI ends its path at `#` and `?`"
    if is_local and len(name.encode()) > MAX_NAME_BYTES:
        return f"a name has {MAX_NAME_BYTES} bytes at most"
    return None


def _check_characters(location: str) -> None:
    if not location.isprintable() or "\\" in location:
        raise ValueError("a control character or backslash stands in this path; remove it")


def _check_scheme(location: str, known: tuple[str, ...]) -> None:
    scheme = location.partition("://")[0]
    if scheme not in known:
        raise ValueError(f"expected one of {', '.join(f'{name}://' for name in known)}")


def _climbs(part: str) -> bool:
    """Return True if a path segment means the parent folder, also in an encoding that some layer decodes."""
    plain = unicodedata.normalize("NFKC", unquote(unquote(part)))
    return plain.strip() == ".." or re.search(r"(^|[/\\])\.\.([/\\]|$)", plain) is not None


Folder = Annotated[str, Field(min_length=1, max_length=MAX_LOCATION), AfterValidator(check_folder)]
Root = Annotated[str, Field(min_length=1, max_length=MAX_LOCATION), AfterValidator(check_root)]


def pattern_fault(path: str) -> str | None:
    """Return the reason why Hadoop cannot read the wildcards of a path, or None.

    The translation to a regular expression is that of `org.apache.hadoop.fs.GlobPattern` (3.5), without
    backslashes, which `check_folder` refuses. A set does not reach over a slash; a group may.
    """
    regex, in_set, groups = [], False, 0
    for place, character in enumerate(path):
        if in_set and character in "[/":
            return f"`{character}` is within `[…]`"
        follows_bracket = in_set and path[place - 1] == "["
        in_set = character == "[" or (in_set and character != "]")
        regex.append(_translated(character, in_set, follows_bracket, groups))
        groups += (character == "{") - (character == "}" and groups > 0)
    if in_set or groups:
        return "`[` has no `]`" if in_set else "`{` has no `}`"
    try:
        with warnings.catch_warnings():
            # Of sets that a later Python may read differently.
            warnings.simplefilter("ignore", FutureWarning)
            re.compile("".join(regex))
    except re.error as error:
        return str(error)
    return None


def _translated(character: str, in_set: bool, follows_bracket: bool, groups: int) -> str:
    """Return a character of a glob pattern as a regular expression."""
    if character in "{}" and (character == "{" or groups):
        return "(?:" if character == "{" else ")"
    if character == "!" and follows_bracket:
        return "^"
    if character == "," and groups:
        return "|"
    if character in ".$()|+" or (character == "^" and not in_set):
        return f"\\{character}"
    return {"*": ".*", "?": "."}.get(character, character)
