"""A verb that changes something, as a command: its own arguments, and the options that all such verbs have.

    def rewind(call: VerbCall, to: To) -> VerbParts: ...
    verb_command(group)(rewind)

The command prints the plan; with `--apply` it carries it out. A verb that gives no parts has done its work
itself. Everything a hold or an error prints to
complete a request is made of the arguments that were given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tidemill.cli.advance_bars import AdvanceBars
from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.control.procedures.filled_form import words_of
from tidemill.control.procedures.run import Asking, acting_words
from tidemill.control.procedures.verb_forms import FORMS

if TYPE_CHECKING:
    from tidemill.control.procedures.parts import VerbParts
    from tidemill.spec.project import Environment, Pipeline

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
Apply = Annotated[bool, typer.Option("--apply", help="Carry the plan out; without it nothing is changed.")]
Reason = Annotated[str, typer.Option(help="Why; needed to change anything, kept in journal and audit.")]
By = Annotated[str, typer.Option(help="Who asks. Default: the user of this machine.")]
ApprovedBy = Annotated[
    str, typer.Option(help="Who approves; needed with --apply in a protected environment.")
]
RequestId = Annotated[str, typer.Option(help="Name of this request; by default the verb makes one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

COMMON: dict[str, tuple[Any, object]] = {
    "apply": (Apply, False),
    "reason": (Reason, ""),
    "by": (By, ""),
    "approved_by": (ApprovedBy, ""),
    "request_id": (RequestId, ""),
    "as_json": (AsJson, False),
}


@dataclass(frozen=True)
class VerbCall:
    """One command line of a verb.

    Args:
        invocation: Its global options.
        verb: The verb.
        pipeline: What it is about, by name.
        arguments: What else tells this request from others of the verb, as written on the command line.
        apply: Whether to act.
        reason: Why.
        by: Who; empty for this machine's user.
        approved_by: Who approves.
        request_id: Given id, or empty.
        as_json: Whether to print JSON.
        group: That the verb is in.
    """

    invocation: Invocation
    verb: str
    pipeline: str
    arguments: tuple[str, ...] = ()
    apply: bool = False
    reason: str = ""
    by: str = ""
    approved_by: str = ""
    request_id: str = ""
    as_json: bool = False
    group: str = "checkpoint"

    @property
    def asking(self) -> Asking:
        """Who asks, and how."""
        return Asking(
            self.verb,
            self.arguments,
            self.by,
            self.invocation.command,
            self.approved_by,
            self.reason,
            self.request_id,
            self.group,
        )

    @cached_property
    def bars(self) -> AdvanceBars:
        """Where copies tell how far they are."""
        return AdvanceBars(quiet=self.as_json)

    def resolved(self, name: str = "") -> Pipeline:
        """The pipeline, or another one of the environment."""
        return self.invocation.pipeline(name or self.pipeline)

    def command_that_acts(self, environment: Environment) -> str:
        """All that must be typed to carry it out."""
        return self.invocation.command(*acting_words(self.asking, self.pipeline, environment))


def verb_command(
    group: typer.Typer, common: Collection[str] = COMMON, **defaults: object
) -> Callable[[Callable[..., VerbParts | None]], None]:
    """Register a verb, which is named as its form is.

    Args:
        group: Where.
        common: Which of the common options it has.
        defaults: Of common options, where they differ; `...` makes one required.
    """
    options = {name: option for name, option in COMMON.items() if name in common}

    def register(verb: Callable[..., VerbParts | None]) -> None:
        from tidemill.cli.procedure_run import run_procedure

        own = _own_parameters(verb)

        def command(context: typer.Context, pipeline: str, **given: Any) -> None:
            told = {name: given.pop(name) for name in options}
            words = words_of(verb.__name__, given)
            call = VerbCall(invocation_of(context), verb.__name__, pipeline, words, **told)
            parts = verb(call, **given)
            if parts is not None:
                run_procedure(call, parts)

        shared = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, default),
                annotation=annotation,
            )
            for name, (annotation, default) in options.items()
        ]
        first = [
            inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            inspect.Parameter("pipeline", inspect.Parameter.KEYWORD_ONLY, annotation=Name),
        ]
        command.__signature__ = inspect.Signature([*first, *own.values(), *shared])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in (*first, *own.values(), *shared)}
        group.command(verb.__name__, help=FORMS[verb.__name__].does)(command)

    return register


def _own_parameters(verb: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(verb, include_extras=True)
    parameters = list(inspect.signature(verb).parameters.values())[1:]
    return {
        p.name: p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in parameters
    }
