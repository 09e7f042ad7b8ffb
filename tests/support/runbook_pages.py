"""The pages in `dags/runbooks/` as a test reads them: commands, and the errors that the symptom names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "dags" / "runbooks"

# A line of a block, and words in backquotes that begin with the name of a program.
_BLOCK = re.compile(r"^(?: {4,}|```\w*\n *)([a-z].+)$", re.MULTILINE)
_INLINE = re.compile(r"`([a-z][a-z0-9_-]* [^`]+)`")
_ERROR = re.compile(r"TIDE-[A-Z0-9]+-\d{3}")
_FURTHER = re.compile(r"(?<=[ ,])-(\d{3})")
_RANGE = re.compile(r"(\d{3}) to (?:TIDE-[A-Z]+)?-(\d{3})")
_OVER = "**How to know"


@dataclass(frozen=True)
class RunbookPage:
    name: str
    text: str

    @cached_property
    def commands(self) -> tuple[str, ...]:
        """Return every `tidemill` command before the page's end, once."""
        return _unique(line for line in _lines(self.text.partition(_OVER)[0]) if _is_ours(line))

    @cached_property
    def over(self) -> tuple[str, ...]:
        """Return the commands that show whether the incident is over, in order."""
        return _unique(line for line in _lines(self.text.partition(_OVER)[2]) if _is_ours(line))

    @cached_property
    def programs(self) -> frozenset[str]:
        """Return other programs that the page runs."""
        others = (line for line in _lines(self.text) if not _is_ours(line))
        return frozenset(part.split()[0] for line in others for part in line.split(" | "))

    @cached_property
    def errors(self) -> frozenset[str]:
        """Return ids in the symptom, with those that a list shortens to `-070` or `-010 to -015`."""
        symptom = self.text.partition("**Symptom.**")[2].partition("\n\n")[0]
        found = _ERROR.findall(symptom)
        prefix = found[0].rpartition("-")[0] if found else ""
        ranges = (range(int(first), int(last)) for first, last in _RANGE.findall(symptom))
        further = [*_FURTHER.findall(symptom), *(f"{number:03}" for numbers in ranges for number in numbers)]
        return frozenset([*found, *(f"{prefix}-{number}" for number in further)])


def runbook_pages() -> dict[str, RunbookPage]:
    files = sorted(FOLDER.glob("*.md"))
    return {file.stem: RunbookPage(file.stem, file.read_text(encoding="utf-8")) for file in files}


def _lines(text: str) -> list[str]:
    """Commands in the order of the page, without what a comment says of them."""
    found = [*_BLOCK.finditer(text), *_INLINE.finditer(text)]
    found.sort(key=lambda match: match.start())
    return [" ".join(match[1].split()).partition(" #")[0].strip() for match in found]


def _is_ours(line: str) -> bool:
    return line.split()[0] == "tidemill"


def _unique(lines: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))  # type: ignore[call-overload]
