"""The filled-in form of an operation: its validation, and its arguments for the command line.

The DAGs build their trigger forms from the same fields, and validate the values again, because Airflow's
server accepts unknown keys. The command line writes arguments with the same functions, so that both result in
the same request.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.control.procedures.verb_forms import COMMON_FIELDS, FORMS, Field
from tidemill.errors import UsageError
from tidemill.spec.near_key import near_key


@dataclass(frozen=True)
class Asked:
    """A filled-in form after validation."""

    verb: str
    pipeline: str
    reason: str = ""
    dry_run: bool = True
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """Return the operation's own arguments as on the command line."""
        return words_of(self.verb, self.arguments)


def words_of(verb: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return arguments, given by their Python names, as on the command line."""
    return tuple(
        word for one in FORMS[verb].fields for word in one.words(arguments.get(one.python_name, one.default))
    )


def fields_of(verb: str) -> tuple[Field, ...]:
    """Return all fields of an operation's form, in order."""
    pipeline, *others = COMMON_FIELDS
    return (pipeline, *FORMS[verb].fields, *others)


def schema_of(verb: str) -> dict[str, Any]:
    """Return the JSON Schema of a whole form, which allows only its fields."""
    fields = fields_of(verb)
    return {
        "type": "object",
        "properties": {one.name: dict(one.schema) for one in fields},
        "required": [one.name for one in fields if one.default is ...],
        "additionalProperties": False,
    }


def read_form(verb: str, given: Mapping[str, Any]) -> Asked:
    """Validate a filled-in form.

    Raises:
        UsageError: TIDE-CTRL-050. Values are not shown, because they may contain anything.
    """
    fields = fields_of(verb)
    known = [one.name for one in fields]
    refuse_unknown(verb, given, known)
    wrong = _first_wrong(verb, given)
    if wrong is not None:
        raise _refused(verb, *wrong, known)
    values = {one.name: one.read(given.get(one.name, one.default)) for one in fields}
    own = {
        one.python_name: values[one.name] for one in FORMS[verb].fields if values[one.name] not in (None, "")
    }
    return Asked(verb, values["pipeline"], values["reason"], values["dry_run"], own)


def refuse_unknown(form: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise if a field is not in the form.

    Args:
        form: The operation or the DAG.
        given: The given values.
        known: The fields of the form.

    Raises:
        UsageError: TIDE-CTRL-050, with the nearest known field.
    """
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise _refused(form, unknown[0], "no such field", known)


def _first_wrong(verb: str, given: Mapping[str, Any]) -> tuple[str, str] | None:
    import jsonschema_rs

    validator = jsonschema_rs.Draft202012Validator(schema_of(verb))
    for error in validator.iter_errors(dict(given)):
        place = [str(part) for part in error.instance_path]
        missing = sorted(set(schema_of(verb)["required"]) - set(given))
        name = place[0] if place else (missing or [""])[0]
        schema = next((one.schema for one in fields_of(verb) if one.name == name), {})
        return name, f"must fit {json.dumps(schema)[:300]}" if place else "is missing"
    return None


def _refused(form: str, name: str, problem: str, known: Iterable[str]) -> UsageError:
    near = near_key(name, known) if problem == "no such field" else None
    return UsageError(
        "TIDE-CTRL-050",
        "This form cannot be used. Nothing was changed.",
        facts={"form": form, "field": ascii(name[:80]), "problem": problem},
        fix=f"write `{near}` instead" if near else f"correct the field; there are: {', '.join(known)}",
    )
