"""Find the records that may be joined to one block of text, one JSON object each.

`pyarrow.json` reads a block of objects and reports their number, but not where each began. `frame` keeps only
records for which that is known: if a block of framed records, joined by newlines, parses at all, then row i
is record i.

Proof: a framed record begins with `{` and ends with `}`, so between two records is `}` newline `{`. The
parser refuses a newline inside a string, and outside strings `}` followed by `{` is valid only between two
objects of the block. So each record is a sequence of whole values, the first of which is an object. A second
value in the same record would begin after the object's `}`, with a character other than `,` `]` `}` (which
are invalid there). `frame` drops a record that has this anywhere outside its strings.

The same rule protects the process, because `pyarrow.json` crashes with a segmentation fault on a `null` where
an object of the block should begin.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.readable import drop_invalid_utf8, drop_null_and_oversized
from tidemill.payload.sieve import Sieve

EMPTY = "empty"
NOT_AN_OBJECT = "not_an_object"
MALFORMED_JSON = "malformed_json"

_JSON_WHITESPACE = " \t\r\n"
# A closing brace followed by something that cannot follow it inside one object.
_STRAY_AFTER_BRACE = r"\}[ \t\r\n]*[^ \t\r\n,\]}]"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def frame(sieve: Sieve, max_record_bytes: int) -> None:
    """Drop records that cannot be one JSON object; the others become strings without surrounding blanks."""
    drop_null_and_oversized(sieve, max_record_bytes)
    drop_invalid_utf8(sieve)
    _drop_without_braces(sieve)
    _drop_with_second_value(sieve)


def _drop_without_braces(sieve: Sieve) -> None:
    if pc.all(_has_braces(sieve.records)).as_py():
        return
    sieve.records = pc.ascii_trim(sieve.records, _JSON_WHITESPACE)
    bare = pc.indices_nonzero(pc.invert(_has_braces(sieve.records)))
    texts = sieve.records.take(bare).to_pylist()
    reasons = map(_reason_without_braces, texts)
    sieve.drop(dict(zip(bare.to_pylist(), reasons, strict=True)))


def _has_braces(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))


def _reason_without_braces(text: str) -> str:
    if not text:
        return EMPTY
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return MALFORMED_JSON
    return NOT_AN_OBJECT


def _drop_with_second_value(sieve: Sieve) -> None:
    doubtful = pc.indices_nonzero(pc.match_substring_regex(sieve.records, _STRAY_AFTER_BRACE))
    if len(doubtful) == 0:
        return
    texts = zip(doubtful.to_pylist(), sieve.records.take(doubtful).to_pylist(), strict=True)
    # Often it is only a brace inside a string.
    stray = [offset for offset, text in texts if re.search(_STRAY_AFTER_BRACE, _STRING.sub('""', text))]
    sieve.drop(dict.fromkeys(stray, MALFORMED_JSON))
