"""Classification of any exception as a Tidemill error, which names the next action."""

from __future__ import annotations

import re

import tidemill.errors
from tidemill.engine.diagnoses import DATA, DIAGNOSES, UNFORESEEN, Diagnosis, diagnosis_of, is_wrapper
from tidemill.errors import TidemillError
from tidemill.failed_at import CONDITION, cause_in, failed_at, may_quote, raised_in_python, state_of, text_of

# Maximum length of a reason, in characters. The first lines of a Java exception contain the reason.
REASON_CHARACTERS = 600

# Patterns for errors of the machine, the network and programs without error classes, each with the id of the
# resulting error. The first match decides, so specific patterns come first.
_INFRASTRUCTURE = (
    (r"No space left on device|Disk quota exceeded|File too large", "TIDE-STOR-003"),
    (r"KubernetesClientException.*(?:[Ff]orbidden|Unauthorized)", "TIDE-K8S-021"),
    (r"KubernetesClientException|No pod was found named", "TIDE-K8S-020"),
    (r"ExecutorLostFailure", "TIDE-K8S-023"),
    (
        # obstore and delta-rs, whose message may have line breaks; then ABFS and S3A.
        r"lacked the necessary privileges|Unauthenticated|403 Forbidden|AccessDeniedException|"
        r"AuthenticationFailed|InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|ContainerNotFound|"
        r"container does not exist|"
        # Errors of a pod's identity: the token request, whose address obstore hides for S3, and the token
        # file.
        r"(?:token request|POST REDACTED)[^{]*?40[01] (?:Bad Request|Unauthorized)|"
        r"reading federated token file|Failed to read token file|"
        r"Error reading token file|Empty token file found",
        "TIDE-STOR-005",
    ),
    (
        r"(?s)Generic (?:MicrosoftAzure|S3) error.*(?:error sending request|after \d+ retries)|"
        r"AbfsRestOperationException|AWSClientIOException|SdkClientException",
        "TIDE-STOR-004",
    ),
    # After the pattern for a full disk: a lost mount or a failing disk.
    (r"Generic LocalFileSystem error", "TIDE-STOR-006"),
    (r"SaslAuthenticationException|SASL authentication error|Authentication failed", "TIDE-SRC-003"),
    (r"Some data may have been lost|OffsetOutOfRange|fetch.*[Dd]ata[Ll]oss", "TIDE-SRC-004"),
    (r"(?s)Connection refused.*TextSocket|TextSocket.*Connection refused", "TIDE-SRC-007"),
    (
        r"UnknownTopicOrPartition|Timed out waiting for a node assignment|DisconnectException|"
        r"org\.apache\.kafka\.common\.errors\.TimeoutException|BrokerNotAvailable|"
        r"Failed to (?:construct|create new) (?:kafka|Kafka)|KAFKA_\w*TIMEOUT|NetworkException|"
        # The broker returned no records for two minutes, e.g. because it throttles for longer than that.
        r"NotEnoughReplicas|Connection refused|Cannot fetch record for offset \d+ in",
        "TIDE-SRC-001",
    ),
    (r"are concurrently using|ConcurrentTransactionException", "TIDE-CKPT-008"),
    (
        r"Concurrent(?:Append|DeleteRead|DeleteDelete|Write)Exception|(?:Metadata|Protocol)ChangedException",
        "TIDE-SINK-002",
    ),
    (r"OutOfMemoryError|MemoryError\b", "TIDE-RUN-009"),
    (
        r"Python worker (?:exited unexpectedly|failed to connect back|process terminated)",
        "TIDE-RUN-008",
    ),
)
# Checked after the error classes, which report the same damage with the file name.
_DAMAGED_STATE = r"RocksDBException: (?:Corruption|IO error)|StateStore.*(?:EOFException|Stream is corrupted)"


# A Tidemill error in a task reaches the driver as text in Spark's exception: `TidemillError.__str__`.
_RAISED_IN_A_TASK = re.compile(
    r"tidemill\.errors\.(?P<kind>\w+): (?P<error_id>TIDE-[A-Z]+-\d{3})  (?P<problem>[^\n]+)"
    r"(?:\n  (?P<facts>\w+=[^\n]*))?(?:\n  To fix: (?P<fix>[^\n]+))?(?:\n  Runbook: (?P<runbook>\S+))?"
)
_FACT = re.compile(r"(\w+)=(.*?)(?= \w+=|$)")


# Pattern for errors without a specific class, such as a Python error inside a wrapper class.
_DATA = re.compile(
    r"SQLSTATE: (?:22|23|38|39|42|P0)|PythonException|AnalysisException|ParseException|SparkRuntimeException"
)

# End of an error class's message, which may have several lines.
_MESSAGE_END = re.compile(r"SQLSTATE: \w{5}|(?P<trace>\n\s*at |\nCaused by|\n\nJVM stacktrace|\n=== )")

# Beginning of the py4j error for a call to Java.
_JAVA_CAUSE = r"^: "

# Errors about code, or about the declaration of a table, quote no record in their first line.
_OF_DECLARATIONS = re.compile(
    r"(?:Analysis|Parse)Exception\b|\[(?:DELTA_VIOLATE_CONSTRAINT|DELTA_NOT_NULL|NOT_NULL_ASSERT)"
)


def classify(error: BaseException) -> TidemillError:
    """Return a Tidemill error unchanged; classify others by text or error class, by default TIDE-INT-001."""
    if isinstance(error, TidemillError):
        return error
    text = text_of(error)
    if (ours := _RAISED_IN_A_TASK.search(text)) is not None:
        return _rebuilt(ours)
    condition, of_class = _error_class(text)
    # The error of a failed cast, or of a function that received the value, may contain any text.
    of_a_value = state_of(text) in ("22", "P0") and of_class in (DATA, None)
    for pattern, error_id in () if of_a_value else _INFRASTRUCTURE:
        if found := re.search(pattern, text):
            return DIAGNOSES[error_id].error(_known_reason(error, pattern, found[0]))
    if of_class not in (DATA, UNFORESEEN, None):
        words = _message_at(text, text.index(f"[{condition}]"))
        return of_class.error("; ".join(filter(None, (words, cause_in(text)))))
    if of_class is None and (found := re.search(_DAMAGED_STATE, text)):
        return DIAGNOSES["TIDE-CKPT-106"].error(_known_reason(error, _DAMAGED_STATE, found[0]))
    if of_class is DATA or (of_class is None and _DATA.search(text)):
        raised = raised_in_python(text)
        declared = not of_a_value and _OF_DECLARATIONS.search(raised[-1] if raised else text)
        return DATA.error(_reason(error, CONDITION.pattern) if declared else failed_at(error))
    return UNFORESEEN.error(failed_at(error) if may_quote(error) else _reason(error, _JAVA_CAUSE))


def _error_class(text: str) -> tuple[str, Diagnosis | None]:
    """Return the first error class that is not only a wrapper, and its diagnosis.

    Errors of user functions are skipped, because they may quote any class.
    """
    if raised_in_python(text):
        return "", None
    for found in CONDITION.finditer(text):
        if not is_wrapper(found[1]):
            return found[1], diagnosis_of(found[1], state_of(text[found.start() :]))
    return "", None


def _message_at(text: str, place: int) -> str:
    """Return the message of an error class; its later lines name the paths, columns or features."""
    end = _MESSAGE_END.search(text, place)
    message = text[place : len(text) if end is None else end.start("trace") if end["trace"] else end.end()]
    return " ".join(message.split())[:REASON_CHARACTERS]


def _rebuilt(found: re.Match[str]) -> TidemillError:
    kind: type[TidemillError] = getattr(tidemill.errors, found["kind"], TidemillError)
    facts = dict(_FACT.findall(found["facts"] or ""))
    fix, runbook = found["fix"] or "", found["runbook"] or ""
    return kind(found["error_id"], found["problem"], facts=facts, fix=fix, runbook=runbook)


def _known_reason(error: BaseException, pattern: str, found: str) -> str:
    """Return the reason; for a user function only the matched text, because the rest may contain data."""
    if raised_in_python(text_of(error)):
        return f"{failed_at(error)}: {found}"[:REASON_CHARACTERS]
    return _reason(error, pattern)


def _reason(error: BaseException, pattern: str) -> str:
    """Return the line that shows the cause. It is one line, so that a payload cannot forge log lines."""
    text = text_of(error)
    if raised := raised_in_python(text):
        return raised[-1][:REASON_CHARACTERS]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if re.search(pattern, line)), lines[0] if lines else "")
    return line.removeprefix(": ")[:REASON_CHARACTERS]
