"""The lint of `make check` for the simple rules of plain English, in docstrings, comments and Markdown.

    python -m tests.plain_english [FILE …]

Without files it reads every tracked Python and Markdown file. It prints one line per finding and ends with 1
if there is one. Code in backticks, code blocks, quoted text and names of arguments are not English and are
skipped.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Words that have a better one in the field: report, return, next to, again, the operator.
BANNED_WORDS = re.compile(
    r"\b(told|tells?|beside|anew|somebody|nobody|whoever|meanwhile|once more)\b|, too(?=[.,;:)]|$)",
    re.IGNORECASE,
)
FIRST_WORDS = re.compile(r"(What|Whether|How|Who|Whose|Which|Where|If|When)\b")
NOT_ENGLISH = re.compile(
    r"``[^`]*``|`[^`]*`|\"[^\"\n]*\"|“[^”]*”|\]\([^)]*\)|^ {4,}\*{0,2}\w+: ", re.MULTILINE
)
MAX_MARKDOWN_COLUMNS = 120


class Finding(NamedTuple):
    """A place that breaks a rule; lines count from 1."""

    file: str
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}"


def banned_words(text: str, file: str, first_line: int) -> Iterator[Finding]:
    """Yield each banned word of a text."""
    english = NOT_ENGLISH.sub(lambda quoted: re.sub(r"[^\n]", "_", quoted[0]), text)
    for found in BANNED_WORDS.finditer(english):
        line = first_line + english.count("\n", 0, found.start())
        yield Finding(file, line, f"plain English has another word for {found[0].strip(', ')!r}")


def of_python(source: str, file: str) -> Iterator[Finding]:
    """Yield the findings in docstrings and comments."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (docstring := ast.get_docstring(node, clean=False)) is not None:
            line = node.body[0].lineno
            if first := FIRST_WORDS.match(docstring.lstrip()):
                yield Finding(
                    file, line, f"a docstring does not begin with {first[0]!r}: use a verb or a noun"
                )
            yield from banned_words(docstring, file, line)
    # Most files have none of the words, and the tokenizer takes most of the time.
    has_one = BANNED_WORDS.search(source) is not None
    for token in tokenize.generate_tokens(io.StringIO(source).readline) if has_one else ():
        if token.type == tokenize.COMMENT:
            yield from banned_words(token.string, file, token.start[0])


def of_markdown(source: str, file: str) -> Iterator[Finding]:
    """Yield the findings outside of code blocks; tables and HTML may be long."""
    is_code = False
    for number, line in enumerate(source.split("\n"), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("    "):
            yield from banned_words(line, file, number)
            if len(line) > MAX_MARKDOWN_COLUMNS and not line.lstrip().startswith(("|", "<", "![")):
                yield Finding(file, number, f"a line has more than {MAX_MARKDOWN_COLUMNS} characters")


def main(files: list[str]) -> int:
    """Print the findings of files, and return the exit code."""
    tracked = files or subprocess.run(
        ["git", "ls-files", "--", "*.py", "*.md"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    findings = [
        finding
        for file in tracked
        if file.endswith((".py", ".md"))
        for finding in (of_python if file.endswith(".py") else of_markdown)(Path(file).read_text(), file)
    ]
    for finding in findings:
        print(finding)  # noqa: T201  # a command line
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
