"""`make near`: the checks and the unit tests that the changed files can affect, nearest first, in about 20 s.

    python -m tests.near [--since COMMIT] [--seconds 5]

The changed files are those that differ from a commit, by default from HEAD. If none do, they are those of the
last commit. A test file is at distance 1 if it imports a changed module or names a changed file, at distance
2 if it imports such a module, and so on. The nearest test files run until their expected times fill the
seconds. The last line reports how many were left out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from tests.coverage.rows import REPOSITORY
from tests.support.progress import seconds_of

# Folders on Python's path, and the files of each that are modules.
ROOTS = {".": "tests/**/*.py", "spark_apps": "tidemill/**/*.py", "dags": "**/*.py", "docker": "*.py"}
PROCESSES = 2
UNKNOWN_SECONDS = 2.0

# Parsing all files takes ten times as long.
IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n(]+)|import ([^\n]+))", re.MULTILINE)
WORD = re.compile(r"[\w.]+")


def modules() -> dict[str, Path]:
    """Return the file of each module of the repository, by its name and relative to the repository."""
    found = {}
    for root, pattern in ROOTS.items():
        for file in (REPOSITORY / root).glob(pattern):
            parts = file.relative_to(REPOSITORY / root).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = file.relative_to(REPOSITORY)
    return found


def imports_of(text: str) -> Iterator[str]:
    """Yield all names that a module imports, including those inside functions."""
    for package, names, plain in IMPORT.findall(text):
        if package:
            yield package
        yield from (f"{package}.{name}" for name in WORD.findall(names))
        yield from WORD.findall(plain)


def distances(changed: Collection[Path]) -> dict[Path, int]:
    """Return the distance of each file from the changed ones, where one leads to it."""
    known = modules()
    used_by: dict[Path, set[Path]] = defaultdict(set)
    other_files = [path for path in changed if path.suffix != ".py"]
    for file in known.values():
        text = (REPOSITORY / file).read_text(encoding="utf-8")
        for name in imports_of(text):
            if name in known:
                used_by[known[name]].add(file)
        for path in other_files:
            if path.name in text:
                used_by[path].add(file)
    found = dict.fromkeys(changed, 0)
    reached = list(changed)
    for file in reached:
        for user in used_by[file] - found.keys():
            found[user] = found[file] + 1
            reached.append(user)
    return found


def nearest_tests(
    found: Mapping[Path, int], seconds: Mapping[str, float], limit: float
) -> tuple[list[str], int]:
    """Return the unit test files to run, and the number of those left out.

    Args:
        found: Distance of each file from the change.
        seconds: Seconds of each test in its latest run, by node id.
        limit: Seconds for all of them. A changed test file always runs.
    """
    of_file: dict[str, float] = defaultdict(float)
    for test, each in seconds.items():
        of_file[test.partition("::")[0]] += each
    tests = [path for path in found if path.match("test_*.py") and path.parts[:2] == ("tests", "unit")]
    tests.sort(key=lambda path: (found[path], of_file.get(str(path), UNKNOWN_SECONDS)))
    chosen, spent = [], 0.0
    for path in tests:
        expected = of_file.get(str(path), UNKNOWN_SECONDS)
        if found[path] == 0 or spent + expected <= limit:
            chosen.append(str(path))
            spent += expected
    return chosen, len(tests) - len(chosen)


def changed_files(since: str) -> list[Path]:
    """Return the files that differ from a commit and exist; without any, those of the last commit."""

    def lines(*command: str) -> list[str]:
        done = subprocess.run(["git", *command], cwd=REPOSITORY, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    names = lines("diff", "--name-only", since) + lines("ls-files", "--others", "--exclude-standard")
    names = names or lines("diff", "--name-only", "HEAD~1")
    return [Path(name) for name in names if (REPOSITORY / name).is_file()]


def checks(changed: Sequence[Path]) -> list[list[str]]:
    """Return the commands of `make check` that are fast and depend on the changed files."""
    python = [str(path) for path in changed if path.suffix == ".py"]
    texts = python + [str(path) for path in changed if path.suffix == ".md"]
    tools = Path(sys.executable).parent
    found = [[str(tools / "mypy")], [str(tools / "lint-imports")]] if python else []
    if python:
        found += [
            [str(tools / "ruff"), "check", *python],
            [str(tools / "ruff"), "format", "--check", *python],
        ]
    return [*found, [sys.executable, "-m", "tests.plain_english", *texts]] if texts else found


def main() -> int:
    """Run the checks while the tests run. Return 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--since", default="HEAD", help="commit to compare with")
    parser.add_argument("--seconds", type=float, default=5.0, help="time for the tests")
    arguments = parser.parse_args()
    changed = changed_files(arguments.since)
    tests, left_out = nearest_tests(distances(changed), seconds_of(), arguments.seconds * PROCESSES)
    running = [
        subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in checks(changed)
    ]
    failed = False
    if tests:
        options = ["-q", "--numprocesses", str(PROCESSES), "--dist", "loadfile"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        failed = subprocess.run(command, cwd=REPOSITORY, check=False).returncode != 0
    for check in running:
        output, _ = check.communicate()
        if check.returncode:
            failed = True
            print(output)
    print(
        f"{len(changed)} changed files, {len(tests)} test files run, {left_out} that they can affect left out"
    )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
