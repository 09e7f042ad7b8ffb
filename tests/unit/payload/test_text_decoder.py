from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill.errors import SpecError
from tidemill.payload.text_decoder import TextDecoder


def test_a_text_is_kept_as_it_is_and_what_is_none_is_rejected():
    records = [b"one", b"", "zwei\u0000 ☃\n".encode(), None, b"\xff", b"12345678", b"123456789"]
    decoded = TextDecoder(8).decode(pa.array(records, pa.binary()))
    assert decoded.rows.to_pylist() == [{"value": "one"}, {"value": ""}, {"value": "12345678"}]
    assert decoded.rejected.to_pylist() == [2, 3, 4, 6]
    assert decoded.reasons == ["oversized", "null_value", "invalid_utf8", "oversized"]


@pytest.mark.parametrize("limit", [0, 2**40])
def test_a_size_that_no_piece_holds_is_refused(limit: int):
    with pytest.raises(SpecError) as refused:
        TextDecoder(limit)
    assert (refused.value.error_id, refused.value.facts) == ("TIDE-SPEC-025", {"max_record_bytes": limit})
