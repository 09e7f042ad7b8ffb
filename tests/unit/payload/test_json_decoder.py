from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from tidemill.errors import SpecError
from tidemill.payload import decoder as decoders
from tidemill.payload.decoder import MAX_BLOCK_BYTES
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import load_payload_schema

INTEGERS = {"type": "array", "items": {"type": "integer"}}
DOCUMENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "note"],
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "note": {"type": ["string", "null"]},
    },
}


@pytest.fixture
def decoder() -> JsonDecoder:
    return JsonDecoder(load_payload_schema(DOCUMENT, "event.json"), max_record_bytes=200)


def record(number: int) -> bytes:
    return b'{"id":%d,"note":null,"at":"2026-01-01T00:00:00Z"}' % number


def test_good_and_bad_records_are_told_apart_by_position(decoder: JsonDecoder):
    values = pa.array([record(0), b'{"id":"1","note":""}', None, record(3), b'{"id":4}'], pa.binary())
    decoded = decoder.decode(values)
    assert decoded.rows.column("id").to_pylist() == [0, 3]
    assert decoded.kept.to_pylist() == [0, 3]
    assert decoded.rejected.to_pylist() == [1, 2, 4]
    assert decoded.reasons == ["wrong_type:id", "null_value", "missing_required:note"]


def test_the_columns_are_the_schema_s_even_without_a_good_record(decoder: JsonDecoder):
    for values in ([], [b"x", None], [record(1)]):
        assert decoder.decode(pa.array(values, pa.binary())).rows.schema == decoder.schema.arrow_schema


def test_a_slice_of_an_array_is_decoded_as_if_it_were_whole(decoder: JsonDecoder):
    values = pa.array([b"x", record(1), b"", record(3), None], pa.binary())
    decoded = decoder.decode(values.slice(1, 3))
    assert decoded.rows.column("id").to_pylist() == [1, 3]
    assert decoded.kept.to_pylist() == [0, 2]
    assert decoded.rejected.to_pylist() == [1]


def test_large_binary_is_decoded_like_binary(decoder: JsonDecoder):
    values = [record(1), b"\xff", b'{"id":2}', None, record(4)]
    small, large = (decoder.decode(pa.array(values, kind)) for kind in (pa.binary(), pa.large_binary()))
    assert small.rows.equals(large.rows)
    assert small.reasons == large.reasons


def test_an_input_beyond_one_block_is_cut_without_a_trace(
    decoder: JsonDecoder, monkeypatch: pytest.MonkeyPatch
):
    values = pa.array([record(n) if n % 7 else b"bad" for n in range(1000)], pa.binary())
    whole = decoder.decode(values)
    monkeypatch.setattr(decoders, "MAX_BLOCK_BYTES", 500)
    cut = decoder.decode(values)
    assert cut.rows.equals(whole.rows)
    assert cut.kept.equals(whole.kept)
    assert cut.rejected.equals(whole.rejected)
    assert cut.reasons == whole.reasons


@pytest.mark.parametrize("share", [1, 2, 20, 300])
@pytest.mark.parametrize(
    "broken",
    [
        b'{"id":"1","note":null}',
        b'{"id":1.5,"note":null}',
        b'{"id":1,,"note":null}',
        b'{"id":1,"note":null,"id":1}',
        b'{"id":1,"note":null,"u":1e999}',
        b'{"id":1,"\\u0061t":5,"note":null}',
    ],
)
def test_every_share_of_broken_records_leaves_exactly_the_good_ones(
    decoder: JsonDecoder, share: int, broken: bytes
):
    values = pa.array([broken if n % share == 0 else record(n) for n in range(2000)], pa.binary())
    decoded = decoder.decode(values)
    assert decoded.rejected.to_pylist() == list(range(0, 2000, share))
    assert len(set(decoded.reasons)) == 1
    assert decoded.rows.column("id").to_pylist() == [n for n in range(2000) if n % share]


@pytest.mark.parametrize("share", [1, 2, 20, 300])
@pytest.mark.parametrize(
    ("spelled", "reason"),
    [
        (b'{"id":7.0,"note":null}', None),
        (b'{"id" : 7.00 }', "missing_required:note"),
        (b'{"id":70e-1,"note":null}', None),
        (b'{"\\u0069d":7.0,"note":null}', None),
        (b'{"note":"\\"id\\":1.0","id":7.0,"u":Inf}', None),
        (b'{"id":7,"note":null,"l":[1.0,2e0]}', None),
        (b'{"id":7.0,"note":null,"l":[1.5]}', "wrong_type:l[]"),
        (b'{"id":7.0,"note":null,"u":1e999}', "not_decodable"),
        (b'{"id":7.0,"note":null,}', "malformed_json"),
    ],
)
def test_every_share_of_integers_with_fractions_is_judged_alike(
    share: int, spelled: bytes, reason: str | None
):
    document = {**DOCUMENT, "properties": {**DOCUMENT["properties"], "l": INTEGERS}}
    by = JsonDecoder(load_payload_schema(document, "event.json"), max_record_bytes=200)
    values = pa.array([spelled if n % share == 0 else record(n) for n in range(2000)], pa.binary())
    decoded = by.decode(values)
    places = list(range(0, 2000, share))
    assert decoded.rejected.to_pylist() == (places if reason else [])
    assert set(decoded.reasons) == ({reason} if reason else set())
    ids = [7 if n % share == 0 else n for n in range(2000) if n % share or not reason]
    assert decoded.rows.column("id").to_pylist() == ids


@pytest.mark.parametrize(
    "name", ["a.b", "x-y", "é😀", 'q"uote', "back\\slash", "$^|", "\u0001", "[", "NaN", "Inf"]
)
def test_any_name_that_can_name_a_column_is_decoded(name: str):
    document = {"type": "object", "properties": {name: {"type": "integer"}}}
    decoder = JsonDecoder(load_payload_schema(document, "name.json"), max_record_bytes=200)
    records = [json.dumps({name: value}).encode() for value in (1, "x", 3, 1.5)]
    decoded = decoder.decode(pa.array(records, pa.binary()))
    assert decoded.rows.to_pylist() == [{name: 1}, {name: 3}]
    assert decoded.reasons == [f"wrong_type:{name}"] * 2


def test_a_size_equal_to_the_limit_is_good(decoder: JsonDecoder):
    exact = record(1).ljust(200)
    decoded = decoder.decode(pa.array([exact, exact + b" "], pa.binary()))
    assert decoded.kept.to_pylist() == [0]
    assert decoded.reasons == ["oversized"]


def test_a_decoder_travels_to_spark_s_workers(decoder: JsonDecoder):
    values = pa.array([record(1), b"{}"], pa.binary())
    travelled = pickle.loads(pickle.dumps(decoder))
    assert travelled.decode(values).rows.equals(decoder.decode(values).rows)
    assert travelled.decode(values).reasons == ["missing_required:id"]


@pytest.mark.parametrize("limit", [0, -1, MAX_BLOCK_BYTES + 1])
def test_an_unusable_limit_is_refused(limit: int):
    with pytest.raises(SpecError) as caught:
        JsonDecoder(load_payload_schema(DOCUMENT, "event.json"), limit)
    assert caught.value.error_id == "TIDE-SPEC-025"
