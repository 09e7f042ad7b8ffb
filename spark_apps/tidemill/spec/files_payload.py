"""Payloads of files sources. The same decoder reads the same bytes from a topic or a file."""

from __future__ import annotations

from tidemill.spec.files_source import FilesSource
from tidemill.spec.payload import Payload

# Keys of a payload that apply only to records of a topic, with their neutral values.
_OF_TOPICS = {"keep_raw": False, "tombstones": "reject", "framing": "plain"}

# Keys of a files source that a payload replaces.
_IN_PAYLOAD = ("schema_", "schema_evolution", "schema_hints")


def check_files_payload(files: FilesSource, payload: Payload | None) -> None:
    """Refuse a files source and a payload that do not fit each other.

    Raises:
        ValueError: Names the key to change.
    """
    if payload is None:
        if files.format is None:
            raise ValueError("`source.files` needs `format` with a `schema`, or the pipeline a `payload`")
        return
    if files.format not in (None, payload.format):
        raise ValueError(
            f"`source.files.format` is {files.format} and the payload is {payload.format}: remove `format`"
        )
    for key in _IN_PAYLOAD:
        if getattr(files, key) is not None:
            raise ValueError(
                f"`source.files.{key.rstrip('_')}` and `payload` both declare the columns: remove one"
            )
    if "on_invalid" in files.model_fields_set:
        raise ValueError(f"write `on_invalid` into `payload.{payload.format}`, not into `source.files`")
    for key, nothing in _OF_TOPICS.items():
        if getattr(payload.chosen, key, nothing) != nothing:
            raise ValueError(f"`payload.{payload.format}.{key}` is for records of a topic: remove it")
    files.check_options_of(payload.format)
    if payload.csv is not None and {"sep", "delimiter"} & {name.lower() for name in files.options}:
        raise ValueError("write `payload.csv.separator` in the place of `source.files.options.sep`")
