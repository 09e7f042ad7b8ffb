"""Any exception -> the Tidemill error that says what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import tidemill.errors
from tidemill.errors import DataError, InternalError, SpecError, TidemillError, UnavailableError
from tidemill.failed_at import CONDITION, failed_at, may_quote, raised_in_python, state_of, text_of

# Longest reason kept, in characters: the first lines of a Java exception say it.
REASON_CHARACTERS = 600


@dataclass(frozen=True)
class _Known:
    pattern: str
    kind: type[TidemillError]
    error_id: str
    problem: str
    fix: str
    runbook: str = ""


# The first match decides, so the more special ones come first.
_KNOWN = (
    _Known(
        r"No space left on device|Disk quota exceeded|File too large",
        UnavailableError,
        "TIDE-STOR-003",
        "The disk is full, or takes no more of a file.",
        "free space; the batch is repeated and nothing is lost",
        "disk-full",
    ),
    _Known(
        r"KubernetesClientException.*(?:[Ff]orbidden|Unauthorized)",
        SpecError,
        "TIDE-K8S-021",
        "Kubernetes does not let the driver make executors.",
        "give the driver's service account its role: helm upgrade, or see helm/README.md for what it needs",
        "executors-missing",
    ),
    _Known(
        r"KubernetesClientException|No pod was found named",
        UnavailableError,
        "TIDE-K8S-020",
        "The Kubernetes API server does not answer the driver.",
        "see the API server; the driver tries again by itself",
        "executors-missing",
    ),
    _Known(
        r"ExecutorLostFailure",
        UnavailableError,
        "TIDE-K8S-023",
        "A task of the batch lost its executor again and again.",
        "see how the executors ended: kubectl get events; if of memory, choose a larger size",
        "executors-missing",
    ),
    _Known(
        # obstore and delta-rs, whose message may be broken into lines; then ABFS and S3A.
        r"lacked the necessary privileges|Unauthenticated|403 Forbidden|AccessDeniedException|"
        r"AuthenticationFailed|InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|ContainerNotFound|"
        r"container does not exist|"
        # Of a pod's identity: its exchange for a token, whose address obstore hides for S3, and its proof.
        r"(?:token request|POST REDACTED)[^{]*?40[01] (?:Bad Request|Unauthorized)|"
        r"reading federated token file|Failed to read token file|"
        r"Error reading token file|Empty token file found",
        SpecError,
        "TIDE-STOR-005",
        "The object store refuses the credentials, or has no such container or bucket.",
        "correct `root` of the environment, the secret that its `storage` names, or the pod's identity",
        "storage-unavailable",
    ),
    _Known(
        r"(?s)Generic (?:MicrosoftAzure|S3) error.*(?:error sending request|after \d+ retries)|"
        r"AbfsRestOperationException|AWSClientIOException|SdkClientException",
        UnavailableError,
        "TIDE-STOR-004",
        "The object store does not answer.",
        "see the store; a batch that it interrupted is repeated and nothing is lost",
        "storage-unavailable",
    ),
    _Known(
        # After the disk that is full: a mount that is gone, a disk that fails.
        r"Generic LocalFileSystem error",
        UnavailableError,
        "TIDE-STOR-006",
        "The disk or the network mount of the storage root does not work.",
        "see the mount; what it interrupted is repeated and nothing is lost",
        "storage-unavailable",
    ),
    _Known(
        r"SaslAuthenticationException|SASL authentication error|Authentication failed",
        SpecError,
        "TIDE-SRC-003",
        "The broker refuses the credentials.",
        "correct the secret that the environment or the source names",
        "source-unavailable",
    ),
    _Known(
        r"Some data may have been lost|KAFKA_DATA_LOSS|OffsetOutOfRange|fetch.*[Dd]ata[Ll]oss",
        DataError,
        "TIDE-SRC-004",
        "The broker no longer has records that the checkpoint has not read.",
        "see the runbook; accepting the loss is a decision, not a default",
        "retention-expired",
    ),
    _Known(
        r"(?s)Connection refused.*TextSocket|TextSocket.*Connection refused",
        UnavailableError,
        "TIDE-SRC-007",
        "No server listens at the socket that is read.",
        "start it first, e.g. `nc -lk 9999`, then the pipeline: each start begins anew",
    ),
    _Known(
        r"UnknownTopicOrPartition|Timed out waiting for a node assignment|DisconnectException|"
        r"org\.apache\.kafka\.common\.errors\.TimeoutException|BrokerNotAvailable|"
        r"Failed to (?:construct|create new) (?:kafka|Kafka)|KAFKA_\w*TIMEOUT|NetworkException|"
        # A broker that gives nothing for two minutes, such as one that throttles beyond that.
        r"NotEnoughReplicas|Connection refused|Cannot fetch record for offset \d+ in",
        UnavailableError,
        "TIDE-SRC-001",
        "No Kafka broker answers, or the topic is gone.",
        "start the broker or create the topic; the driver goes on where it was",
        "source-unavailable",
    ),
    _Known(
        # Of a joined table, or of one that is a stream: Spark knows both by their columns at the start.
        r"DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS|DELTA_SCHEMA_CHANGED",
        UnavailableError,
        "TIDE-SRC-006",
        "The columns of a table that is read have changed.",
        "nothing, if the transform takes the new ones: the driver starts again with them",
    ),
    _Known(
        r"DELTA_SOURCE_(?:TABLE_IGNORE_CHANGES|IGNORE_DELETE)",
        DataError,
        "TIDE-SRC-009",
        "Rows of the table that is read were changed or deleted, and a stream of appends cannot follow.",
        "leave such commits out with `changes: skip` (or skip_deletes) of the source; or follow them with "
        "`read_changes: true`",
    ),
    _Known(
        # The loser of a race for a checkpoint file is told of the rename that the winner's file forbade.
        r"CONCURRENT_STREAM_LOG_UPDATE|FAILED_RENAME_(?:TEMP_FILE|PATH)|are concurrently using|"
        r"ConcurrentTransactionException",
        UnavailableError,
        "TIDE-CKPT-008",
        "Another driver writes the same checkpoint or table.",
        "see which drivers run: tidemill status; stop the one that should not",
        "two-drivers",
    ),
    _Known(
        r"Concurrent(?:Append|DeleteRead|DeleteDelete|Write)Exception|(?:Metadata|Protocol)ChangedException",
        UnavailableError,
        "TIDE-SINK-002",
        "Another writer changed the table at the same time.",
        "a repeated batch is safe; the driver tries again",
    ),
)


# An error of ours that a task raised comes back as text in Spark's own: `TidemillError.__str__`.
_RAISED_IN_A_TASK = re.compile(
    r"tidemill\.errors\.(?P<kind>\w+): (?P<error_id>TIDE-[A-Z]+-\d{3})  (?P<problem>[^\n]+)"
    r"(?:\n  (?P<facts>\w+=[^\n]*))?(?:\n  To fix: (?P<fix>[^\n]+))?(?:\n  Runbook: (?P<runbook>\S+))?"
)
_FACT = re.compile(r"(\w+)=(.*?)(?= \w+=|$)")


# What Spark says of data and of expressions that it refuses: data exception (22), constraint (23), code of
# a user (38), syntax or unknown name (42), `raise_error` (P0).
_DATA = re.compile(
    r"SQLSTATE: (?:22|23|38|42|P0)|PythonException|AnalysisException|ParseException|SparkRuntimeException"
)

# What py4j begins the error of a call to Java with.
_JAVA_CAUSE = r"^: "

# What is said of code alone, or of what a table is declared to hold, quotes no record in its first line.
_OF_DECLARATIONS = re.compile(
    r"(?:Analysis|Parse)Exception\b|\[(?:DELTA_VIOLATE_CONSTRAINT|DELTA_NOT_NULL|NOT_NULL_ASSERT)"
)


def classify(error: BaseException) -> TidemillError:
    """The error itself if it is ours, else the first known pattern in its text, else TIDE-INT-001."""
    if isinstance(error, TidemillError):
        return error
    text = text_of(error)
    if (ours := _RAISED_IN_A_TASK.search(text)) is not None:
        return _rebuilt(ours)
    # A value that cannot be cast may hold any words.
    of_a_value = state_of(text) in ("22", "P0")
    for known in () if of_a_value else _KNOWN:
        if found := re.search(known.pattern, text):
            return known.kind(
                known.error_id,
                known.problem,
                facts={"reason": _known_reason(error, known.pattern, found[0])},
                fix=known.fix,
                runbook=known.runbook,
            )
    if _DATA.search(text) is not None:
        raised = raised_in_python(text)
        declared = not of_a_value and _OF_DECLARATIONS.search(raised[-1] if raised else text)
        return DataError(
            "TIDE-DATA-003",
            "Spark cannot process the data as the pipeline says.",
            facts={"reason": _reason(error, CONDITION.pattern) if declared else failed_at(error)},
            fix="correct the transform; or set `on_poison: quarantine`, which puts the record aside with all "
            "that was said of it",
            runbook="restart-budget-spent",
        )
    return InternalError(
        "TIDE-INT-001",
        "Something unexpected happened.",
        facts={"reason": failed_at(error) if may_quote(error) else _reason(error, _JAVA_CAUSE)},
        fix="see the driver's log for the trace, and report it",
    )


def _rebuilt(found: re.Match[str]) -> TidemillError:
    kind: type[TidemillError] = getattr(tidemill.errors, found["kind"], TidemillError)
    facts = dict(_FACT.findall(found["facts"] or ""))
    fix, runbook = found["fix"] or "", found["runbook"] or ""
    return kind(found["error_id"], found["problem"], facts=facts, fix=fix, runbook=runbook)


def _known_reason(error: BaseException, pattern: str, found: str) -> str:
    """Of a user's function only what is known of it."""
    if raised_in_python(text_of(error)):
        return f"{failed_at(error)}: {found}"[:REASON_CHARACTERS]
    return _reason(error, pattern)


def _reason(error: BaseException, pattern: str) -> str:
    """The line that shows the cause; one line, so that a payload cannot forge log lines."""
    text = text_of(error)
    if raised := raised_in_python(text):
        return raised[-1][:REASON_CHARACTERS]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if re.search(pattern, line)), lines[0] if lines else "")
    return line[:REASON_CHARACTERS]
