"""Digests of code and declaration for ledger entries, without loading either."""

from __future__ import annotations

import hashlib
import json

from tidemill import __version__
from tidemill.ledger.entry import Code, UsedModel
from tidemill.spec.project import Pipeline


def code_of(pipeline: Pipeline) -> Code:
    """Return the code record of a pipeline for the ledger."""
    digest = hashlib.sha256()
    for file in reversed(pipeline.named_files):
        digest.update(file.read_bytes())
    for name, model in sorted((pipeline.spec.models or {}).items()):
        digest.update(f"{name} {model.model_dump_json(exclude_defaults=True)}".encode())
    deciding = {"sources", "payload_", "event_time_", "transform", "sinks"}
    parts = pipeline.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=deciding)
    # An alias can resolve to another model without a change of the declaration.
    found = sorted((name, model.digest) for name, model in pipeline.models.items())
    deciders = [digest.hexdigest(), parts, *([found] if found else [])]
    rules = hashlib.sha256(json.dumps(deciders, sort_keys=True).encode())
    return Code(
        tidemill=__version__,
        digest=digest.hexdigest()[:16],
        spec=pipeline.digest,
        rules=rules.hexdigest()[:16],
        models=_used(pipeline),
    )


def _used(pipeline: Pipeline) -> dict[str, UsedModel] | None:
    used = {
        name: UsedModel(uri=model.uri, version=model.version, digest=model.digest)
        for name, model in pipeline.models.items()
    }
    return used or None
