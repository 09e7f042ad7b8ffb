"""The doctor's findings about one state folder. Pure: a folder's facts and the time in, findings out.

id              what
TIDE-CKPT-050   the gate would refuse a start (torn, disagreeing, …)
TIDE-CKPT-051   orphaned: an unused state folder, generation or file
TIDE-CKPT-052   shared: two checkpoints of one query
TIDE-CKPT-053   two generations are written
TIDE-CKPT-054   oversized
TIDE-CKPT-055   state that only grows
TIDE-CKPT-056   no backup, or an old one
TIDE-CKPT-057   unread records may be gone soon
TIDE-CKPT-058   an unfinished request, or a hold
TIDE-CKPT-059   the last driver did not end well
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from tidemill.checkpoint.findings import Finding, Severity
from tidemill.checkpoint.procedure.journal import JournalEntry
from tidemill.checkpoint.procedure.sign_of_life import SignOfLife
from tidemill.checkpoint.reading.state_folder import StateFolder
from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.retention.rule import MAX_FILES

DOCTOR_RUNBOOK = "checkpoint-doctor"

# Maximum number of files before a finding: twice the plan of the retention policy. Joins keep four stores per
# partition, so more files than planned are normal, but with twice as many, every start and backup is slow.
OVERSIZED_FILES = 2 * MAX_FILES

# Maximum size of one checkpoint in bytes. A restarting driver first loads its state, and 10 GiB take a minute
# or more.
OVERSIZED_BYTES = 10 * 2**30

# Number of files in the whole state folder, including backups and trash, at which pruning is advised.
CROWDED_FILES = 10 * MAX_FILES

# Maximum age of the newest backup. A restore repeats later records from the source, which by default keeps 7
# days.
BACKUP_AGE = timedelta(days=7)

# Number of leftovers of interrupted writes that is worth a note: its drivers die often.
MANY_LEFTOVERS = 100

# A write to a generation this long after the switch was not just in flight. It is longer than the clock
# difference of two machines.
LEFT_FOR_GOOD = timedelta(minutes=5)

# Time without a report from a driver that claims to run. A driver writes about every 10 s while it idles,
# and after each batch.
SILENCE = timedelta(minutes=15)


def folder_findings(folder: StateFolder, now: datetime) -> list[Finding]:
    """Return all findings that need only the folder."""
    return [
        *_orphaned_parts(folder),
        *_two_live(folder),
        *_oversized(folder),
        *_unfinished(folder, now),
        *_last_ending(folder, now),
    ]


def orphaned_folder(folder: StateFolder) -> Finding:
    """Return TIDE-CKPT-051 for a state folder that belongs to no declared pipeline."""
    newest = max((g.newest_at for g in folder.generations.values() if g.newest_at), default=None)
    return Finding(
        "TIDE-CKPT-051",
        "warning",
        folder.name,
        "A state folder belongs to no declared pipeline.",
        {"files": folder.files, "bytes": folder.bytes, "newest_file": newest},
        "declare the pipeline again, or, if its tables are not needed any more, move the folder away",
        DOCTOR_RUNBOOK,
    )


def backup_findings(folder: StateFolder, now: datetime, severity: Severity) -> list[Finding]:
    """Return TIDE-CKPT-056 for a pipeline that has committed batches."""
    live = folder.live
    newest = max(folder.backups.values(), default=None)
    if live is None or not live.commits or (newest is not None and now - newest <= BACKUP_AGE):
        return []
    return [
        Finding(
            "TIDE-CKPT-056",
            severity,
            folder.name,
            "The checkpoint has no backup." if newest is None else "The newest backup is old.",
            {"backups": len(folder.backups), "newest": newest, "committed_batch": live.commits[-1]},
            f"tidemill checkpoint backup {folder.name}",
            DOCTOR_RUNBOOK,
        )
    ]


def shared_queries(folders: Iterable[StateFolder]) -> list[Finding]:
    """Return TIDE-CKPT-052 for a checkpoint that was copied by hand; both would write as the same query."""
    places: dict[str, list[str]] = {}
    for folder in folders:
        for generation in folder.generations.values():
            if generation.query_id is not None:
                places.setdefault(generation.query_id, []).append(f"{folder.name}/{generation.name}")
    return [
        Finding(
            "TIDE-CKPT-052",
            "error",
            found[0].partition("/")[0],
            "Two checkpoints are of one query: one is a copy of the other.",
            {"query_id": query_id, "checkpoints": ", ".join(found)},
            "keep the one that its pipeline's record names, and move the other away; a copy is made by "
            f"tidemill checkpoint fork {found[0].partition('/')[0]} FORK",
            "checkpoint-of-another-pipeline",
        )
        for query_id, found in sorted(places.items())
        if len(found) > 1
    ]


def _orphaned_parts(folder: StateFolder) -> list[Finding]:
    known = {record.generation for record in folder.history}
    # The journal knows the generations that an unfinished request has made so far.
    unknown = sorted(set(folder.generations) - known) if not folder.unfinished else []
    leftovers = sum(generation.leftovers for generation in folder.generations.values())
    findings = []
    facts: dict[str, object]
    if unknown:
        files = sum(folder.generations[name].files for name in unknown)
        facts = {"generations": ", ".join(unknown), "files": files}
        problem = "A checkpoint folder was never live, and no request is making it."
        fix = f"tidemill checkpoint prune {folder.name}"
        findings.append(Finding("TIDE-CKPT-051", "warning", folder.name, problem, facts, fix, DOCTOR_RUNBOOK))
    if leftovers >= MANY_LEFTOVERS:
        problem = "Interrupted writes have left many files; its drivers die often."
        fix = f"see why: tidemill status {folder.name}; the files themselves are harmless"
        facts = {"files": leftovers}
        findings.append(Finding("TIDE-CKPT-051", "note", folder.name, problem, facts, fix, DOCTOR_RUNBOOK))
    return findings


def _two_live(folder: StateFolder) -> list[Finding]:
    if not folder.history:
        return []
    live = folder.history[0]
    late = {
        name: generation.newest_at
        for name, generation in folder.generations.items()
        if name != live.generation
        and name in {record.generation for record in folder.history}
        and generation.newest_at is not None
        and generation.newest_at > live.since + LEFT_FOR_GOOD
    }
    return [
        Finding(
            "TIDE-CKPT-053",
            "error",
            folder.name,
            "Something has written to a generation after it was left: two drivers may be at work.",
            {"live": live.generation, "since": live.since, "generation": name, "written_at": written_at},
            f"find and stop the old driver; then see who wrote what: tidemill ledger {folder.name}",
            "two-drivers",
        )
        for name, written_at in sorted(late.items())
    ]


def _oversized(folder: StateFolder) -> list[Finding]:
    live = folder.live
    if live is not None and (live.files > OVERSIZED_FILES or live.bytes > OVERSIZED_BYTES):
        facts = {"generation": live.name, "files": live.files, "bytes": live.bytes}
        problem = "The checkpoint is so large that starts and backups are slow."
        fix = "lower run.rewindable; for large state, see whether its watermark or time-to-live lets it go"
        return [Finding("TIDE-CKPT-054", "warning", folder.name, problem, facts, fix, DOCTOR_RUNBOOK)]
    if folder.files > CROWDED_FILES:
        facts = {"files": folder.files, "bytes": folder.bytes, "backups": len(folder.backups)}
        problem = "Old generations, backups and trash fill the state folder."
        fix = (
            f"tidemill checkpoint prune {folder.name}; the trash still counts until it is deleted, "
            "after a week or by a second prune with --trash-days 0"
        )
        return [Finding("TIDE-CKPT-054", "note", folder.name, problem, facts, fix, DOCTOR_RUNBOOK)]
    return []


def _unfinished(folder: StateFolder, now: datetime) -> list[Finding]:
    started = {entry.request_id for entry in folder.unfinished}
    signs = {hold.id: hold.alive for hold in folder.holds}
    requests = [_request(entry, signs.get(entry.request_id), now) for entry in folder.unfinished]
    holds = [
        Finding(
            "TIDE-CKPT-058",
            "warning",
            folder.name,
            "A hold forbids starts.",
            {"age": now - hold.at, **hold.facts},
            hold.to_do or f"tidemill checkpoint release {folder.name} {hold.id}",
            DOCTOR_RUNBOOK,
        )
        for hold in folder.holds
        if hold.id not in started
    ]
    return [*requests, *holds]


def _request(entry: JournalEntry, sign: SignOfLife | None, now: datetime) -> Finding:
    """Return a finding for a request: a running operation ends without help, any other must be completed."""
    at_work = sign is not None and not sign.is_silent(now)
    facts = {"request": entry.request_id, "verb": entry.verb, "by": entry.by, "age": now - entry.begun_at}
    process = {} if sign is None else {"process": sign.told(now)}
    return Finding(
        "TIDE-CKPT-058",
        "note" if at_work else "error",
        entry.pipeline,
        "A verb is at work; the pipeline does not start until its end."
        if at_work
        else "A request has begun and not come to its end; the pipeline does not start until then.",
        {**facts, "done": entry.progress, **process},
        "wait for its end"
        if at_work
        else entry.command
        or f"run the same command again: tidemill checkpoint {entry.verb} {entry.pipeline} …",
        DOCTOR_RUNBOOK,
    )


def _last_ending(folder: StateFolder, now: datetime) -> list[Finding]:
    receipt, status = folder.receipt, folder.status
    if receipt is not None and (status is None or receipt.run_id == status.run_id):
        return _bad_ending(folder, receipt)
    alive = status is not None and status.state not in ("stopped", "failed")
    if status is None or not alive or status.age(now) <= SILENCE:
        return []
    return [
        Finding(
            "TIDE-CKPT-059",
            "note",
            folder.name,
            "The last driver was killed without a receipt, or its batch takes very long.",
            {"run_id": status.run_id, "state": status.state, "silent_for": status.age(now)},
            f"tidemill status {folder.name}",
            DOCTOR_RUNBOOK,
        )
    ]


def _bad_ending(folder: StateFolder, receipt: Receipt) -> list[Finding]:
    error = receipt.error or {}
    if receipt.result == "clean":
        return []
    if receipt.result == "forced":
        problem = "The last drain took too long: its batch was cut off, and the next start repeats it."
        runbook = "drain-overdue"
    else:
        problem = "The last driver ended with an error."
        runbook = error.get("runbook") or DOCTOR_RUNBOOK
    facts = {"result": receipt.result, "exit_code": receipt.exit_code, "at": receipt.stopped_at}
    if "id" in error:
        facts["error"] = error["id"]
    fix = f"tidemill status {folder.name}"
    return [Finding("TIDE-CKPT-059", "warning", folder.name, problem, facts, fix, runbook)]
