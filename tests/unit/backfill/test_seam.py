"""The seam of random histories, against an oracle that looks at each number by itself."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime

import pytest

from tidemill.backfill.seam import PartitionFacts, PartitionSeam, seam_of
from tidemill.capture.archive_files import ArchiveFile, Run
from tidemill.capture.spans import Span, repeated, union

HISTORIES = 500
AT = datetime(2026, 11, 5, tzinfo=UTC)


def file(name: str, *spans: Span, twice: tuple[Span, ...] = ()) -> ArchiveFile:
    return ArchiveFile(name, 0, AT, tuple(Run(first, end, AT, AT) for first, end in spans), twice)


def spans_of(numbers: set[int]) -> tuple[Span, ...]:
    return union((number, number + 1) for number in numbers)


def history(seed: int) -> PartitionFacts:
    """Return a hub's partition with all its events, and those that Capture wrote, lost or wrote again."""
    chosen = random.Random(seed)
    end = chosen.choice([1, *chosen.choices(range(2, 120), k=9)])
    oldest = chosen.choice([0, end, *chosen.choices(range(end + 1), k=3)])
    archived_from = chosen.choice([0, 0, chosen.randint(0, end)])
    archived_to = chosen.choice([end, oldest, *chosen.choices(range(oldest, end + 1), k=2)])
    files, first = [], archived_from
    while first < archived_to:
        stop = min(archived_to, first + chosen.choice([1, 3, chosen.randint(1, 40)]))
        files.append(_written(chosen, f"f{len(files)}", first, stop))
        first = stop
        if chosen.random() < 0.2:
            files.append(file(f"empty{len(files)}"))
        if chosen.random() < 0.1:
            first += chosen.randint(1, 5)
    files = [each for each in files if chosen.random() > 0.04]
    chosen.shuffle(files)
    wanted = sorted(
        (chosen.choice([0, chosen.randint(0, end)]), chosen.choice([end, chosen.randint(0, end)]))
    )
    written = [tuple(sorted((chosen.randint(0, end), chosen.randint(0, end)))) for _ in range(3)]
    return PartitionFacts(0, (wanted[0], wanted[1]), files, (oldest, end), [(a, b) for a, b in written])


def _written(chosen: random.Random, name: str, first: int, stop: int) -> ArchiveFile:
    """Return one file, perhaps with events of the previous file, a gap, or repeated numbers."""
    numbers = set(range(max(0, first - chosen.choice([0, 0, 0, 1, 7])), stop))
    if chosen.random() < 0.05:
        numbers.discard(chosen.choice(sorted(numbers)))
    twice = {number for number in numbers if chosen.random() < 0.02}
    return file(name, *spans_of(numbers), twice=spans_of(twice))


def check(facts: PartitionFacts, seam: PartitionSeam) -> None:
    wanted = set(range(*facts.wanted))
    has = {each.path: {n for run in each.runs for n in range(run.first, run.end)} for each in facts.files}
    times = Counter(number for numbers in has.values() for number in numbers)
    again = {n for each in facts.files for first, end in each.twice for n in range(first, end)}
    hub = set(range(*facts.hub))
    written = {n for first, end in facts.written for n in range(first, end)}

    assert seam.gaps == spans_of({n for n in wanted if not times[n] and n not in hub})
    assert seam.repeated == spans_of({n for n in wanted if times[n] > 1 or n in again})
    assert seam.in_both == spans_of({n for n in wanted if times[n] and n in hub})
    assert seam.unwritten == spans_of(wanted - written)
    read = [n for each in seam.slices for n in range(each.first, each.end)]
    assert all(
        each.first < each.end and set(range(each.first, each.end)) <= has[each.path] for each in seam.slices
    )
    assert read == list(range(facts.wanted[0], seam.join))
    assert not times[seam.join] or seam.join == facts.wanted[1]
    if not seam.gaps:
        from_hub = list(range(seam.join, facts.wanted[1]))
        assert [*read, *from_hub] == sorted(wanted)
        assert set(from_hub) <= hub


def test_every_number_is_read_once_or_named_as_a_gap_in_500_histories() -> None:
    seen: Counter[str] = Counter()
    for seed in range(HISTORIES):
        facts = history(seed)
        seam = seam_of(facts)
        check(facts, seam)
        seen["gap"] += bool(seam.gaps)
        seen["joined"] += bool(seam.slices) and seam.join < facts.wanted[1] and not seam.gaps
        seen["archive alone"] += bool(seam.slices) and seam.join == facts.wanted[1]
        seen["hub alone"] += not seam.slices and not seam.gaps and facts.wanted[0] < facts.wanted[1]
        seen["repeated"] += bool(seam.repeated)
        seen["empty"] += facts.wanted[0] == facts.wanted[1]
    # The histories are such that each kind is among them often.
    assert min(seen.values()) > 20, seen


def test_the_archive_is_read_as_far_as_it_reaches_and_the_hub_from_there() -> None:
    files = [file("a", (0, 10)), file("b", (8, 20)), file("later", (25, 30))]
    seam = seam_of(PartitionFacts(0, (5, 40), files, (15, 50), [(0, 30)]))
    assert [(each.path, each.first, each.end) for each in seam.slices] == [("a", 5, 10), ("b", 10, 20)]
    assert (seam.join, seam.gaps, seam.repeated) == (20, (), ((8, 10),))
    assert seam.line() == (
        "partition 0: archive 5 to 20 (2 files); hub 20 to 40; twice in the archive, read once: 2; "
        "in both: 10; never written: 10"
    )


def test_a_gap_is_named_by_its_numbers() -> None:
    seam = seam_of(PartitionFacts(3, (0, 40), [file("a", (0, 10)), file("b", (11, 20))], (30, 50)))
    assert seam.gaps == ((10, 11), (20, 30))
    assert "GAP 10, 20-29" in seam.line()


@pytest.mark.parametrize("seed", range(200))
def test_what_is_repeated_is_what_more_than_one_span_has(seed: int) -> None:
    chosen = random.Random(seed)
    spans = [(first, first + chosen.randint(0, 6)) for first in chosen.choices(range(20), k=6)]
    counts = Counter(number for span in spans for number in range(*span))
    assert repeated(spans) == spans_of({number for number, count in counts.items() if count > 1})
