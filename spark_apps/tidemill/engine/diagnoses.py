"""Errors of Spark, Delta, Kafka and the machine, grouped by the operator's next action; a `Diagnosis` per id.

`error_classes.yaml` maps the error classes of Spark, its Kafka source and Delta to these ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

from tidemill.errors import CrashError, DataError, InternalError, SpecError, TidemillError, UnavailableError

# Key of `error_classes.yaml` for classes that only wrap another error.
_WRAPPERS = "wrappers"


@dataclass(frozen=True)
class Diagnosis:
    """An error that ends a driver; its class sets the exit code."""

    kind: type[TidemillError]
    error_id: str
    problem: str
    fix: str
    runbook: str = ""

    def error(self, reason: str) -> TidemillError:
        """Return the error with its reason."""
        facts = {"reason": reason}
        return self.kind(self.error_id, self.problem, facts=facts, fix=self.fix, runbook=self.runbook)


DATA = Diagnosis(
    DataError,
    "TIDE-DATA-003",
    "Spark cannot process the data as the pipeline says.",
    "correct the transform; or set `on_poison: quarantine`, which puts the record aside with all that was "
    "said of it",
    "restart-budget-spent",
)
UNFORESEEN = Diagnosis(
    InternalError,
    "TIDE-INT-001",
    "Something unexpected happened.",
    "see the driver's log for the trace, and report it",
)

_ALL = (
    DATA,
    UNFORESEEN,
    Diagnosis(
        UnavailableError,
        "TIDE-STOR-003",
        "The disk is full, or takes no more of a file.",
        "free space; the batch is repeated and nothing is lost",
        "disk-full",
    ),
    Diagnosis(
        UnavailableError,
        "TIDE-STOR-004",
        "The object store does not answer.",
        "check the store; an interrupted batch is repeated and nothing is lost",
        "storage-unavailable",
    ),
    Diagnosis(
        SpecError,
        "TIDE-STOR-005",
        "The object store refuses the credentials, or has no such container or bucket.",
        "correct `root` of the environment, the secret that its `storage` names, or the pod's identity",
        "storage-unavailable",
    ),
    Diagnosis(
        UnavailableError,
        "TIDE-STOR-006",
        "The disk or the network mount of the storage root does not work.",
        "check the mount; interrupted work is repeated and nothing is lost",
        "storage-unavailable",
    ),
    Diagnosis(
        UnavailableError,
        "TIDE-STOR-008",
        "Spark could not write a file of the checkpoint or of a table's log.",
        "check the storage; the batch is repeated and nothing is lost",
        "storage-unavailable",
    ),
    Diagnosis(
        UnavailableError,
        "TIDE-K8S-020",
        "The Kubernetes API server does not answer the driver.",
        "see the API server; the driver tries again by itself",
        "executors-missing",
    ),
    Diagnosis(
        SpecError,
        "TIDE-K8S-021",
        "Kubernetes does not let the driver make executors.",
        "give the driver's service account its role: helm upgrade, or see helm/README.md for what it needs",
        "executors-missing",
    ),
    Diagnosis(
        UnavailableError,
        "TIDE-K8S-023",
        "A task of the batch lost its executor again and again.",
        "see how the executors ended: kubectl get events; if of memory, choose a larger size",
        "executors-missing",
    ),
    Diagnosis(
        UnavailableError,
        "TIDE-SRC-001",
        "No Kafka broker answers, or the topic is gone.",
        "start the broker or create the topic; the driver goes on where it was",
        "source-unavailable",
    ),
    Diagnosis(
        SpecError,
        "TIDE-SRC-003",
        "The broker refuses the credentials.",
        "correct the secret that the environment or the source names",
        "source-unavailable",
    ),
    Diagnosis(
        DataError,
        "TIDE-SRC-004",
        "The broker no longer has records that the checkpoint has not read.",
        "see the runbook; accepting the loss is a decision, not a default",
        "retention-expired",
    ),
    Diagnosis(
        # A joined table, or a table read as a stream: Spark fixes the columns of both at the start.
        UnavailableError,
        "TIDE-SRC-006",
        "The columns of a table that is read have changed.",
        "nothing, if the transform takes the new ones: the driver starts again with them",
    ),
    Diagnosis(
        UnavailableError,
        "TIDE-SRC-007",
        "No server listens at the socket that is read.",
        "start it first, e.g. `nc -lk 9999`, then the pipeline: each start begins again",
    ),
    Diagnosis(
        DataError,
        "TIDE-SRC-009",
        "Rows of the table that is read were changed or deleted, and a stream of appends cannot follow.",
        "leave such commits out with `changes: skip` (or skip_deletes) of the source; or follow them with "
        "`read_changes: true`",
    ),
    Diagnosis(
        DataError,
        "TIDE-SRC-011",
        "A file that is read is missing, damaged or of another format.",
        "put the file that `reason` names back as it was, or move it away, then start the pipeline",
        "files-unreadable",
    ),
    Diagnosis(
        DataError,
        "TIDE-SRC-012",
        "The folders that are read do not have one layout of partitions.",
        "move the folders that `reason` names out of the path that is read, then start the pipeline",
        "files-unreadable",
    ),
    Diagnosis(
        DataError,
        "TIDE-SRC-013",
        "A table that is read was made again, or has lost commits that were not read yet.",
        "restore the table with its log, or read it again: "
        "tidemill checkpoint reset PIPELINE --from earliest",
        "source-table-changed",
    ),
    Diagnosis(
        DataError,
        "TIDE-SRC-014",
        "Columns of the table that is read were renamed or dropped, and its stream cannot follow.",
        "read the table again from its newest version: tidemill checkpoint reset PIPELINE --from earliest",
        "source-table-changed",
    ),
    Diagnosis(
        UnavailableError,
        "TIDE-SRC-015",
        "A topic changed while a batch of it was planned: partitions or records disappeared.",
        "nothing, if the topic is whole: the driver starts again, and the gate compares topic and checkpoint",
        "topic-recreated",
    ),
    Diagnosis(
        SpecError,
        "TIDE-SRC-016",
        "The source cannot begin where the pipeline file says.",
        "correct `starting_offsets`, `starting_version` or `starting_at` of the source",
        "stream-does-not-start",
    ),
    Diagnosis(
        # The loser of a race for a checkpoint file fails at the rename, because the winner's file exists.
        UnavailableError,
        "TIDE-CKPT-008",
        "Another driver writes the same checkpoint or table.",
        "see which drivers run: tidemill status; stop the one that should not",
        "two-drivers",
    ),
    Diagnosis(
        DataError,
        "TIDE-CKPT-106",
        "Spark cannot read the state of the checkpoint: a file of it is damaged or missing.",
        "go back to a batch whose state is whole: tidemill checkpoint rewind PIPELINE --to BATCH; "
        "if none is: tidemill checkpoint restore PIPELINE BACKUP",
        "checkpoint-state-lost",
    ),
    Diagnosis(
        DataError,
        "TIDE-CKPT-107",
        "The state of the checkpoint is of another transform.",
        "run the transform that wrote the state, or begin with empty state: "
        "tidemill checkpoint reset PIPELINE --from earliest",
        "pipeline-changed",
    ),
    Diagnosis(
        DataError,
        "TIDE-CKPT-108",
        "Spark cannot read a file of the checkpoint.",
        "see which files are whole: tidemill checkpoint inspect PIPELINE; what makes them whole: "
        "tidemill checkpoint gate PIPELINE",
        "checkpoint-damaged",
    ),
    Diagnosis(
        UnavailableError,
        "TIDE-SINK-002",
        "Another writer changed the table at the same time.",
        "a repeated batch is safe; the driver tries again",
    ),
    Diagnosis(
        DataError,
        "TIDE-SINK-025",
        "The table takes appends only (delta.appendOnly), and the sink updates or deletes rows.",
        "set the table's property delta.appendOnly to false, or `mode: append` for the sink",
        "table-schema-changed",
    ),
    Diagnosis(
        DataError,
        "TIDE-SINK-026",
        "The table's columns, partitions or rules do not take the rows of the sink.",
        "change the sink or the table so that they agree",
        "table-schema-changed",
    ),
    Diagnosis(
        DataError,
        "TIDE-SINK-027",
        "The log of a Delta table is damaged.",
        "restore the table with its log",
        "table-log-damaged",
    ),
    Diagnosis(
        DataError,
        "TIDE-SINK-028",
        "A Delta table has a feature that this version of Delta does not support.",
        "take the feature that `reason` names out of the table (ALTER TABLE … DROP FEATURE)",
        "table-schema-changed",
    ),
    Diagnosis(
        CrashError,
        "TIDE-RUN-008",
        "A Python worker ended in the middle of its work, without an error of Python.",
        "see what ended it: memory (`memory_overhead` of the size), native code, or `os._exit` in a "
        "function of the transform",
        "restart-budget-spent",
    ),
    Diagnosis(
        CrashError,
        "TIDE-RUN-009",
        "The driver or an executor ran out of memory.",
        "choose a larger `size`, or smaller batches",
        "restart-budget-spent",
    ),
    Diagnosis(
        SpecError,
        "TIDE-RUN-010",
        "Spark refuses a setting or an option, or lacks a library for it.",
        "correct what `reason` names: `spark_conf` or `sizes` of the environment, or `options` of the source "
        "or sink",
        "stream-does-not-start",
    ),
)

DIAGNOSES: Mapping[str, Diagnosis] = {diagnosis.error_id: diagnosis for diagnosis in _ALL}

# SQLSTATE classes for conditions that the table does not list: data exception (22), constraint (23), user
# code (38, 39), `raise_error` (P0), and classes of errors from analysing an expression or statement.
_OF_DATA = frozenset({"07", "0A", "21", "22", "23", "38", "39", "42", "46", "54", "P0"})


@cache
def error_classes() -> Mapping[str, str]:
    """Return the id of each listed error class; `wrappers` for a class that only wraps another error."""
    table = yaml.safe_load((files(__package__) / "error_classes.yaml").read_text(encoding="utf-8"))
    return {name: error_id for error_id, names in table.items() for name in names.split()}


def listed(condition: str) -> str | None:
    """Return the table's id for a class such as `A.B`, or for `A`; None if it lists neither."""
    table = error_classes()
    return table.get(condition) or table.get(condition.partition(".")[0])


def is_wrapper(condition: str) -> bool:
    """Return True for a class that only wraps another error."""
    return listed(condition) == _WRAPPERS


def diagnosis_of(condition: str, state: str) -> Diagnosis | None:
    """Return the diagnosis of an error class, by the table or its SQLSTATE; None if neither decides.

    Args:
        condition: Name of the class, such as `CANNOT_LOAD_STATE_STORE.UNCATEGORIZED`.
        state: First two characters of its SQLSTATE; empty if it has none.
    """
    error_id = listed(condition)
    if error_id is not None:
        return DIAGNOSES.get(error_id)
    return DATA if state in _OF_DATA else None
