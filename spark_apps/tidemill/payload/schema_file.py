"""Schema files of payloads: JSON documents in conf/schemas/."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from tidemill.errors import SpecError

# Maximum number of cached files of one project; a file is read once even if several pipelines share it.
_KEPT = 1024


def read_schema_file(file: Path) -> Any:
    """Return the document of a schema file; callers must not change it.

    Raises:
        SpecError: TIDE-SPEC-028, if it is not a JSON object.
    """
    document = _document(file, file.stat().st_mtime_ns)
    if not isinstance(document, dict):
        raise SpecError(
            "TIDE-SPEC-028",
            "The payload schema is not a JSON object.",
            facts={"file": file, "found": type(document).__name__},
            fix="write a JSON Schema with type, properties and required; or, for Avro, a record",
        )
    return document


@lru_cache(maxsize=_KEPT)
def _document(file: Path, _modified: int) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise SpecError(
            "TIDE-SPEC-028",
            "The payload schema is not JSON.",
            facts={
                "file": f"{file}:{line}" if line else file,
                "reason": getattr(error, "msg", None) or type(error).__name__,
            },
            fix="correct the file",
        ) from error
