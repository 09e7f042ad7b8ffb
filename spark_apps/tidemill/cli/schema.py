"""`tidemill schema`: `check` compares two schemas, `pull` downloads one from the registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.errors import UsageError

if TYPE_CHECKING:
    from tidemill.payload.schema_changes import SchemaChange


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Payload schemas: compare, pull.", no_args_is_help=True, rich_markup_mode=None)
    group.command("check")(check)
    group.command("pull")(pull)
    app.add_typer(group, name="schema")


_File = typer.Argument(
    exists=True, dir_okay=False, help="JSON Schema (.json), Avro schema (.avsc) or descriptor set (.desc)."
)
_KINDS = (".json", ".avsc", ".desc")


def check(
    old: Annotated[Path, _File],
    new: Annotated[Path, _File],
    message: Annotated[
        str, typer.Option("--message", help="For descriptor sets: the message to compare, with its package.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Report for each change from OLD to NEW whether it is compatible. Exit code 1 if one is not.

    A change is compatible if valid records stay valid, and a table with `schema_evolution: add_columns`
    accepts the rows.
    """
    changes = _changes(old, new, message)
    wrong = sum(not change.compatible for change in changes)
    if as_json:
        found = [vars(change) for change in changes]
        print_json({"old": str(old), "new": str(new), "compatible": not wrong, "changes": found})
    else:
        if changes:
            verdicts = {True: "compatible", False: "incompatible"}
            rows = [(verdicts[c.compatible], c.path or "the record", c.change, c.reason) for c in changes]
            print_table(("", "at", "change", "because"), rows)
        say(f"{len(changes)} changes, {wrong} incompatible")
    if wrong:
        raise typer.Exit(1)


def pull(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="Subject in the registry, e.g. orders-value.")],
    version: Annotated[int, typer.Option("--version", min=1, help="Version of the subject.")],
) -> None:
    """Write a version of a subject into conf/schemas, for `schema:` of a payload.

    From then on it is a normal file: it is reviewed, is part of the pipeline's definition, and does not need
    the registry.
    """
    from tidemill.payload.registry_client import registry_of
    from tidemill.payload.registry_content import pulled_file

    environment = invocation_of(context).environment()
    name, content = pulled_file(registry_of(environment), subject, version)
    file = environment.project.schemas / name
    if file.is_file() and file.read_bytes() != content:
        raise UsageError(
            "TIDE-CLI-032",
            "The file is there with another content; a version of a subject never changes.",
            facts={"file": file, "subject": subject, "version": version},
            fix="see from which registry it came; move it away to take this one",
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    say(f"wrote {file}")


def _changes(old: Path, new: Path, message: str) -> list[SchemaChange]:
    from tidemill.payload.avro_schema import load_avro_schema
    from tidemill.payload.json_schema import load_payload_schema
    from tidemill.payload.protobuf_schema import load_protobuf_schema
    from tidemill.payload.schema_changes import (
        avro_schema_changes,
        json_schema_changes,
        protobuf_schema_changes,
    )
    from tidemill.payload.schema_conditions import Conditions
    from tidemill.payload.schema_file import read_schema_file

    if old.suffix != new.suffix or old.suffix not in _KINDS:
        raise UsageError(
            "TIDE-CLI-030",
            "Two schemas of one kind are compared.",
            facts={"old": old, "new": new},
            fix="name two JSON Schemas (.json), two Avro schemas (.avsc) or two descriptor sets (.desc)",
        )
    if (old.suffix == ".desc") != bool(message):
        raise UsageError(
            "TIDE-CLI-031",
            "Of descriptor sets one message is compared, and only of them.",
            facts={"old": old, "new": new, "message": message or "none"},
            fix="add --message package.Name for .desc files, and leave it out for others",
        )
    if old.suffix == ".desc":
        found = [load_protobuf_schema(file.read_bytes(), message, file.name) for file in (old, new)]
        return protobuf_schema_changes(*found)
    if old.suffix == ".avsc":
        avro = [load_avro_schema(read_schema_file(file), file.name) for file in (old, new)]
        return avro_schema_changes(*avro)
    schemas = [load_payload_schema(read_schema_file(file), file.name) for file in (old, new)]
    for schema in schemas:
        # Refuses schemas that a driver would refuse.
        Conditions.of(schema)
    return json_schema_changes(*schemas)
