"""A verb that changes something, as a command: its own arguments, and the options that all such verbs have.

    @verb_command(group, "Take tables, offsets and state back together.")
    def rewind(call: VerbCall, to: To) -> VerbParts: ...

The command prints the plan; with `--apply` it carries it out. A verb that gives no parts has done its work
itself. Everything a hold or an error prints to
complete a request is made of the arguments that were given.
"""

from __future__ import annotations

import getpass
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from tidemill.cli.invocation import Invocation, invocation_of

if TYPE_CHECKING:
    from tidemill.checkpoint.procedure.carry_out import Request, Step
    from tidemill.spec.project import Pipeline

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

    @property
    def person(self) -> str:
        """Who asks, and who approves."""
        asking = asking_person(self.by)
        return f"{asking}, approved by {self.approved_by}" if self.approved_by else asking

    def resolved(self, name: str = "") -> Pipeline:
        """The pipeline, or another one of the environment."""
        return self.invocation.pipeline(name or self.pipeline)

    def command(self, *more: str) -> str:
        """The command line again, without what only says how to go about it."""
        return self.invocation.command("checkpoint", self.verb, self.pipeline, *self.arguments, *more)


@dataclass(frozen=True)
class VerbParts:
    """What makes one verb out of the common way.

    Args:
        pipeline: Whose journal and hold; the one that the verb changes.
        make_plan: Gathers facts and decides; plain data. Raises if the verb refuses. Writes nothing.
        steps: Made from the plan alone.
        lines: The plan as a person reads it.
        forbids_starts: False for a verb that may run beside a live stream; the gate is not asked then.
        has_work: Whether a plan changes anything; one that does not is not carried out.
        then: The command that comes next, without the pipeline; by default it is started.
    """

    pipeline: Pipeline
    make_plan: Callable[[], Mapping[str, Any]]
    steps: Callable[[Request, Mapping[str, Any]], tuple[Step, ...]]
    lines: Callable[[Mapping[str, Any]], list[str]]
    forbids_starts: bool = True
    has_work: Callable[[Mapping[str, Any]], bool] = lambda _: True
    then: tuple[str, ...] = ()


def asking_person(named: str) -> str:
    """Who asks: who is named, else this machine's user."""
    return named or getpass.getuser()


def verb_command(
    group: typer.Typer, text: str, common: Collection[str] = COMMON, **defaults: object
) -> Callable[[Callable[..., VerbParts | None]], None]:
    """Register a verb.

    Args:
        group: Where.
        text: Its help.
        common: Which of the common options it has.
        defaults: Of common options, where they differ; `...` makes one required.
    """
    options = {name: option for name, option in COMMON.items() if name in common}

    def register(verb: Callable[..., VerbParts | None]) -> None:
        from tidemill.cli.procedure_run import run_procedure

        own = _own_parameters(verb)

        def command(context: typer.Context, pipeline: str, **given: Any) -> None:
            told = {name: given.pop(name) for name in options}
            words = tuple(word for name, value in given.items() for word in _words(own[name], value))
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
        group.command(verb.__name__, help=text)(command)

    return register


def _own_parameters(verb: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(verb, include_extras=True)
    parameters = list(inspect.signature(verb).parameters.values())[1:]
    return {
        p.name: p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in parameters
    }


def _words(parameter: inspect.Parameter, value: object) -> tuple[str, ...]:
    """An argument as it was written; nothing for one that was left out."""
    if value is None or value == parameter.default:
        return ()
    info = next(part for part in get_args(parameter.annotation) if not isinstance(part, type))
    if not isinstance(info, OptionInfo):
        return (str(value),)
    # In `Annotated`, typer keeps the first declaration as if it were a default.
    named = info.default if isinstance(info.default, str) else None
    option = named or f"--{parameter.name.replace('_', '-')}"
    return (option,) if value is True else (option, str(value))
