"""Checks of an event by the classes that OpenLineage generates from its schemas, and by our schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attr
import jsonschema_rs
import openlineage.client.event_v2 as events
import openlineage.client.facet_v2 as standard

import tidemill.lineage
from tidemill.lineage.facets import PRODUCER

SCHEMAS = Path(tidemill.lineage.__file__).parent / "schemas"

_FACETS = {
    name: found
    for module in vars(standard).values()
    if getattr(module, "__name__", "").startswith("openlineage.client.generated")
    for name, found in vars(module).items()
    if name.endswith("Facet")
}


def check_event(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event of a run that keeps all rules; each key is one that its schema has."""
    assert event["schemaURL"] == events.RunEvent._get_schema()
    assert event["producer"] == PRODUCER
    run, job = event["run"], event["job"]
    made = events.RunEvent(
        eventTime=event["eventTime"],
        eventType=events.RunState(event["eventType"]),
        producer=event["producer"],
        # `Run` raises if the id is not a UUID.
        run=events.Run(run["runId"]),
        job=events.Job(job["namespace"], job["name"]),
    )
    assert set(event) <= {field.name for field in attr.fields(type(made))}
    check_facets(run.get("facets", {}))
    check_facets(job["facets"])
    for dataset in (*event["inputs"], *event["outputs"]):
        assert set(dataset) <= {"namespace", "name", "facets", "inputFacets", "outputFacets"}
        assert dataset["namespace"]
        assert dataset["name"]
        for key in ("facets", "inputFacets", "outputFacets"):
            check_facets(dataset.get(key, {}))
    return event


def check_facets(facets: dict[str, Any]) -> None:
    for key, facet in facets.items():
        assert facet["_producer"] == PRODUCER
        name = facet["_schemaURL"].replace("/", ":").rpartition(":")[2]
        if key.startswith("tidemill_"):
            schema = json.loads((SCHEMAS / f"{name}.json").read_text())
            assert facet["_schemaURL"] == schema["$id"]
            jsonschema_rs.validate(schema, facet, validate_formats=True)
        else:
            check_standard(name, facet)


def check_standard(name: str, facet: dict[str, Any]) -> None:
    found = _FACETS[name]
    assert facet["_schemaURL"] == found._get_schema()
    fields = {field.name: field for field in attr.fields(found)}
    assert set(facet) <= set(fields)
    required = {name for name, field in fields.items() if field.default is attr.NOTHING}
    assert required <= set(facet)
