"""What runs, as ledger entries tell it: digests of code and declaration, without loading either."""

from __future__ import annotations

import hashlib
import json

from tidemill import __version__
from tidemill.ledger.entry import Code
from tidemill.spec.project import Pipeline


def code_of(pipeline: Pipeline) -> Code:
    """What runs, for the ledger."""
    digest = hashlib.sha256()
    for file in reversed(pipeline.named_files):
        digest.update(file.read_bytes())
    deciding = {"sources", "payload_", "event_time_", "transform", "sinks"}
    parts = pipeline.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=deciding)
    rules = hashlib.sha256(json.dumps([digest.hexdigest(), parts], sort_keys=True).encode())
    return Code(
        tidemill=__version__,
        digest=digest.hexdigest()[:16],
        spec=pipeline.digest,
        rules=rules.hexdigest()[:16],
    )
