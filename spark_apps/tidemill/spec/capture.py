"""Event Hubs Capture: the location of its files, and the information in their paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import Field, field_validator

from tidemill.spec.location import Folder
from tidemill.spec.near_key import near_key
from tidemill.spec.strict import Strict

# Azure's default. The service itself appends `.avro`.
DEFAULT_FORMAT = "{Namespace}/{EventHub}/{PartitionId}/{Year}/{Month}/{Day}/{Hour}/{Minute}/{Second}.avro"
_ENDING = ".avro"

_TIMES = {
    "Year": r"\d{4}",
    "Month": r"\d\d",
    "Day": r"\d\d",
    "Hour": r"\d\d",
    "Minute": r"\d\d",
    "Second": r"\d\d",
}
_NEEDED = ("PartitionId", *_TIMES)
_KNOWN = ("Namespace", "EventHub", *_NEEDED)
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class CaptureArchive(Strict):
    """The Avro files to which Event Hubs Capture writes the events of the hub."""

    path: Folder = Field(
        description="Folder of the files, relative to the storage root, or a URI. `format` begins below it."
    )
    format: str = Field(
        DEFAULT_FORMAT,
        max_length=300,
        description="Path of a file, as configured in Azure. The suffix `.avro` may be left out.",
    )

    @field_validator("format")
    @classmethod
    def _format_names_partition_and_time(cls, text: str) -> str:
        if not text.isprintable() or "\\" in text or text.startswith("/") or ".." in text.split("/"):
            raise ValueError("expected a relative path with placeholders such as {PartitionId}")
        names = _PLACEHOLDER.findall(text)
        for name in names:
            if name not in _KNOWN:
                near = near_key(name, _KNOWN)
                raise ValueError(
                    f"{{{name[:40]}}} is no placeholder" + (f"; did you mean {{{near}}}?" if near else "")
                )
        if re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
            raise ValueError("a brace stands alone")
        lacking = [f"{{{name}}}" for name in _NEEDED if name not in names]
        if lacking:
            raise ValueError(f"lacks {', '.join(lacking)}")
        return text


@dataclass(frozen=True)
class CapturePath:
    """Information in the path of a file.

    Args:
        partition: Number of the partition.
        moment: Start of its window.
    """

    partition: int
    moment: datetime


class PathFormat:
    """The paths of one hub's files.

    Args:
        archive: The declaration.
        namespace: Namespace of the hub.
        hub: Name of the hub.
    """

    def __init__(self, archive: CaptureArchive, namespace: str, hub: str) -> None:
        text = archive.format if archive.format.endswith(_ENDING) else archive.format + _ENDING
        self._names = {"Namespace": namespace, "EventHub": hub}
        before, _, _ = _with_names(text, self._names).partition("{")
        self.folder = before.rpartition("/")[0]
        """Common folder of all files, relative to the archive's folder; empty if it is that folder."""
        self._pattern = re.compile(self._pattern_of(text))

    def parse(self, path: str) -> CapturePath | None:
        """Return the information in a path below the archive's folder; None if it is not this hub's.

        A path with an impossible time, such as a 13th month, gives None as well.
        """
        found = self._pattern.fullmatch(path)
        if found is None:
            return None
        try:
            year, month, day, hour, minute, second = (int(found[name]) for name in _TIMES)
            moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            return None
        return CapturePath(int(found["PartitionId"]), moment)

    def _pattern_of(self, text: str) -> str:
        parts = _PLACEHOLDER.split(text)
        seen: set[str] = set()
        return "".join(
            self._part(part, seen) if odd % 2 else re.escape(part) for odd, part in enumerate(parts)
        )

    def _part(self, name: str, seen: set[str]) -> str:
        if name in self._names:
            return re.escape(self._names[name])
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>{_TIMES.get(name, '[0-9]{1,5}')})"


def _with_names(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text
