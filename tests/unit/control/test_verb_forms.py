"""The forms of the operations: strict, and the same arguments as on the command line."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.core import TyperArgument, TyperOption

from tidemill.cli import checkpoint
from tidemill.cli.verb_command import COMMON
from tidemill.control.procedures.filled_form import fields_of, read_form, schema_of, words_of
from tidemill.control.procedures.parts import PROCEDURES
from tidemill.control.procedures.verb_forms import FORMS
from tidemill.errors import UsageError

# Commands that only read.
LOOKING = {"inspect", "gate", "doctor"}

# A valid form of each operation.
GOOD: dict[str, dict[str, Any]] = {
    "backup": {},
    "hold": {"id": "deploy"},
    "release": {"hold": "deploy", "force": True},
    "rewind": {"to": "2026-11-20T14:00:00Z", "generation": "g0001"},
    "restore": {"backup": "20261120t140000123456z", "from_env": "prod"},
    "reset": {
        "from": '{"orders": {"0": 5, "1": -2}}',
        "warm": False,
        "without_missing": True,
        "skip_unread": False,
    },
    "acknowledge": {},
    "repair": {},
    "repartition": {"partitions": 8},
    "fork": {"fork": "orders_shadow", "batch": 0},
    "prune": {"generations": 0, "backups": 1, "records": 5, "trash_days": 0.5},
}


def commands() -> dict[str, Any]:
    app = typer.Typer()
    checkpoint.add_to(app)
    group: Any = typer.main.get_command(app)
    found: dict[str, Any] = group.commands["checkpoint"].commands
    return found


def test_every_verb_of_the_command_line_has_a_form() -> None:
    assert set(commands()) - LOOKING == set(FORMS) == set(GOOD)
    assert set(PROCEDURES) == set(FORMS) - {"backup", "hold", "release"}


@pytest.mark.parametrize("verb", FORMS)
def test_a_form_has_the_arguments_of_the_command_line(verb: str) -> None:
    own = [p for p in commands()[verb].params if p.name not in {*COMMON, "pipeline", "help", "context"}]
    typed = {(tuple(p.opts) if isinstance(p, TyperOption) else (), p.name) for p in own}
    known = {
        (() if one.positional else (f"--{one.name.replace('_', '-')}",), one.python_name)
        for one in FORMS[verb].fields
    }
    assert known == typed
    places = [p.name for p in own if isinstance(p, TyperArgument)]
    assert [one.python_name for one in FORMS[verb].fields if one.positional] == places


@pytest.mark.parametrize(("verb", "form"), GOOD.items())
def test_a_form_that_is_filled_in_well_is_read(verb: str, form: dict[str, Any]) -> None:
    asked = read_form(verb, {"pipeline": "orders", **form})
    assert (asked.pipeline, asked.dry_run) == ("orders", True)
    by_name = {one.python_name: one.name for one in FORMS[verb].fields}
    assert {by_name[name]: value for name, value in asked.arguments.items()} == form


def test_arguments_are_written_as_a_person_writes_them() -> None:
    def words(verb: str, **form: Any) -> tuple[str, ...]:
        return read_form(verb, {"pipeline": "orders", **form}).words

    assert words("rewind", to="118") == ("--to", "118")
    assert words("release", hold="deploy", force=True) == ("deploy", "--force")
    assert words("restore", backup="20261120t140000123456z", from_env="prod") == (
        *("20261120t140000123456z", "--from-env", "prod"),
    )
    assert words("fork", fork="shadow", batch=0) == ("shadow", "--batch", "0")
    # JSON has no integer type, so 8.0 is also an integer.
    assert words("repartition", partitions=8.0) == ("8",)
    assert words("prune") == words("hold", id="by-hand") == ()
    assert words_of("prune", {"trash_days": 7.0, "generations": 0}) == ("--generations", "0")


@pytest.mark.parametrize("verb", FORMS)
def test_a_key_that_no_form_has_is_refused_with_the_near_one(verb: str) -> None:
    assert schema_of(verb)["additionalProperties"] is False
    with pytest.raises(UsageError) as caught:
        read_form(verb, {"pipeline": "orders", **GOOD[verb], "dry_rum": False})
    assert (caught.value.error_id, caught.value.facts["field"]) == ("TIDE-CTRL-050", "'dry_rum'")
    assert caught.value.fix == "write `dry_run` instead"


@pytest.mark.parametrize("verb", FORMS)
def test_what_must_be_filled_in_is_asked_for(verb: str) -> None:
    for one in fields_of(verb):
        if one.default is ...:
            form = {"pipeline": "orders", **GOOD[verb]}
            del form[one.name]
            with pytest.raises(UsageError) as caught:
                read_form(verb, form)
            assert caught.value.facts["field"] == f"'{one.name}'"


@pytest.mark.parametrize(
    ("verb", "name", "value"),
    [
        ("hold", "id", "../x"),
        ("hold", "id", "deploy\n"),
        ("release", "force", "yes"),
        ("restore", "backup", "../../etc"),
        ("restore", "from_env", "prod.yaml"),
        ("restore", "from_env", "/etc/passwd"),
        ("reset", "from", "yesterday"),
        ("reset", "from", '{"orders": {"0": 5}}; rm -rf /'),
        ("reset", "from", "{{ 7*7 }}!"),
        ("reset", "from", "earliest\n"),
        ("repartition", "partitions", 0),
        ("repartition", "partitions", 2**31),
        ("repartition", "partitions", "eight"),
        ("fork", "fork", "Orders; DROP TABLE"),
        ("fork", "batch", -1),
        ("prune", "trash_days", -0.1),
        ("prune", "backups", 0),
        ("prune", "records", 1.5),
        ("backup", "pipeline", "orders/../x"),
        ("backup", "reason", "two\nlines"),
        ("backup", "reason", "x" * 201),
        ("backup", "dry_run", None),
    ],
)
def test_a_hostile_value_is_refused_without_being_shown(verb: str, name: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        read_form(verb, {"pipeline": "orders", **GOOD[verb], name: value})
    assert (caught.value.error_id, caught.value.facts["field"]) == ("TIDE-CTRL-050", f"'{name}'")
    assert not isinstance(value, str) or value not in str(caught.value)
