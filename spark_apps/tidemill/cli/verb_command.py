"""Commands for operations that change something, with the operation's arguments and the common options.

    def rewind(call: VerbCall, to: To) -> VerbParts: ...
    verb_command(group)(rewind)

The command prints the plan, and with `--apply` it carries the plan out. An operation that returns no parts
has done its work itself. Commands that a hold or an error suggests repeat the given arguments.
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
Apply = Annotated[
    bool, typer.Option("--apply", help="Carry out the plan. Without this option, nothing is changed.")
]
Reason = Annotated[
    str, typer.Option(help="Reason, recorded in journal and audit. Required to change anything.")
]
By = Annotated[str, typer.Option(help="Name of the requester. Default: the user of this machine.")]
ApprovedBy = Annotated[
    str, typer.Option(help="Name of the approver. Required with --apply in a protected environment.")
]
RequestId = Annotated[str, typer.Option(help="Id of this request. Default: a new one.")]
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
    """One command line of an operation.

    Args:
        invocation: The global options.
        verb: The operation.
        pipeline: Name of the pipeline.
        arguments: Arguments that identify this request, as written on the command line.
        apply: True to act.
        reason: The reason.
        by: Name of the requester; empty for this machine's user.
        approved_by: Name of the approver.
        request_id: The given id, or empty.
        as_json: True to print JSON.
        group: Command group of the operation.
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
        """Return the requester and the request."""
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
        """Return the progress bars for copies."""
        return AdvanceBars(quiet=self.as_json)

    def resolved(self, name: str = "") -> Pipeline:
        """Return the pipeline, or another one of the environment."""
        return self.invocation.pipeline(name or self.pipeline)

    def command_that_acts(self, environment: Environment) -> str:
        """Return the complete command that carries out the request."""
        return self.invocation.command(*acting_words(self.asking, self.pipeline, environment))


def verb_command(
    group: typer.Typer, common: Collection[str] = COMMON, **defaults: object
) -> Callable[[Callable[..., VerbParts | None]], None]:
    """Return a decorator that registers an operation under the name of its form.

    Args:
        group: Command group of the operation.
        common: Names of its common options.
        defaults: Different defaults of common options; `...` makes one required.
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
