"""The plans of operations in readable form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def rewind_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return deleted rows, restored rows, and affected readers."""
    lines = [*_going_back(plan)]
    for name, readers in plan["read_by"].items():
        lines.append(f"{name} is read by {', '.join(readers)}: they have read rows that go")
    lines += [f"{name}: its file is wrong, so what it reads is not known" for name in plan["wrong_files"]]
    lines += [f"topic {topic}: records of the undone batches are sent again" for topic in plan["sent_again"]]
    lines += [
        f"files {path}: rows of the undone batches stay; no driver starts until the folder is moved away, "
        "or the sink has another one"
        for path in plan.get("files_stay", ())
    ]
    return [*lines, *_worth_knowing(plan)]


def restore_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return the backup and the batches that it undoes."""
    backup = f"backup {plan['backup']} of {plan['taken_at']}: {plan['files']} files, {plan['bytes']} bytes"
    return [backup, *_going_back(plan), *_worth_knowing(plan)]


def repartition_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return the change of the state."""
    before, after, batch = plan["partitions_before"], plan["partitions"], plan["begins_after"]
    return [
        f"from {plan['parent']} after batch {plan['batch_id']}, in a new generation",
        f"state: {before} -> {after} partitions, as batch {batch}",
        "tables and offsets stay as they are",
    ]


def fork_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return the copied data."""
    lines = [f"{plan['origin']} {plan['parent']} after batch {plan['batch_id']}"]
    for name, table in plan["tables"].items():
        copied = f"version {table['from_version']}, {table['files']} files, {table['bytes']} bytes"
        lines.append(f"{table['of']} -> {name}: {copied}")
    lines.append("rejected records are not copied; Kafka sinks get only what the fork sends from now on")
    return [*lines, *_worth_knowing(plan)]


def reset_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return gap and overlap of each partition."""
    lines = [f"{plan['parent']} is left for a new generation; batches begin with 0"]
    for row in plan["partitions"]:
        where = f"{row['table']}  {row['topic']}-{row['partition']}"
        stands = "nothing" if row["stands_at"] is None else row["stands_at"]
        begins = "nothing" if row["begins_at"] is None else row["begins_at"]
        lines.append(f"{where}  {stands} -> {begins}  {_meaning(row)}")
    lines += [f"{table}: there is no table; it begins with batch 0" for table in plan["absent"]]
    if plan["start"] is None:
        lines.append("all that the source still has is read again, as at a first start")
    if plan["never_read"]:
        lines.append(f"{plan['never_read']} records are never read")
    if plan["read_again"]:
        lines.append(f"{plan['read_again']} records are read again; append tables get their rows twice")
    if plan.get("read_again_if_copied"):
        lines.append(
            f"if records were copied from the old topic, up to {plan['read_again_if_copied']} of them are "
            "read again; append tables get their rows twice"
        )
    if plan["state_is_lost"]:
        lines.append("open windows and other state begin empty")
    lines += [_brought_back(name, files) for name, files in plan.get("brought_back", {}).items()]
    if plan.get("warm") is not None:
        lines += _warm_lines(plan["warm"])
    return [*lines, *_worth_knowing(plan)]


def _warm_lines(past: Mapping[str, Any]) -> list[str]:
    # Imported here, so that the command line shows its help without pydantic.
    from tidemill.checkpoint.warm_start import WarmStart

    warm = WarmStart.model_validate(past)
    written = "none" if warm.written_until is None else warm.written_until.isoformat()
    return [
        f"state is computed in one batch from {warm.records} records that were read before, {warm.archived} "
        f"of them from the archive; rows of windows that end by {written} are in the tables and left out",
        f"live from {warm.end}",
    ]


def acknowledge_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return the changes."""
    lines = [f"{name}: {change}" for name, change in plan["changed"].items()]
    return lines or ["nothing was changed that needs a word"]


def repair_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return the offsets that are rewritten."""
    lines = []
    for file in plan["files"]:
        found = "torn" if file["found"] is None else file["found"]
        lines.append(f"offsets/{file['batch_id']}: {found} -> {file['ledger']}")
    return lines or ["offsets and ledger agree as far as the ledger knows; nothing to repair"]


def prune_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return the moved and deleted paths."""
    moved = [f"to the trash: {i['path']}  ({i['files']} files, {i['bytes']} bytes)" for i in plan["moves"]]
    gone = [f"deleted: {i['path']}  ({i['files']} files, {i['bytes']} bytes)" for i in plan["deletes"]]
    return [*moved, *gone] or ["nothing is old enough"]


def clean_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return the files with their destination, and why the others stay."""
    if plan["left"]:
        return [f"nothing goes: {plan['left']}"]
    return [line for name, stream in plan["streams"].items() for line in _clean_lines(name, stream)]


def _clean_lines(name: str, stream: Mapping[str, Any]) -> list[str]:
    what = f"to {stream['to']}" if stream["after"] == "archive" else "deleted for good"
    lines = [f"{name}: {stream['files']} files, {stream['bytes']} bytes: {what}"]
    if stream["files"]:
        lines.append(f"  from {stream['first']} to {stream['last']}, all older than {stream['older_than']}")
    if stream["more"]:
        lines.append(f"  {stream['more']} more by the next runs")
    lines += [f"  {count} stay: {reason}" for reason, count in stream["stays"].items()]
    if stream["not_read_for_good"]:
        lines.append(f"  {stream['not_read_for_good']} stay: not read yet, or a rewind would read them again")
    return lines


# Operations whose plans are kept in the audit.
WORDS: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "rewind": rewind_lines,
    "restore": restore_lines,
    "repartition": repartition_lines,
    "fork": fork_lines,
    "reset": reset_lines,
    "acknowledge": acknowledge_lines,
    "repair": repair_lines,
    "prune": prune_lines,
    "clean": clean_lines,
}


def kept_lines(verb: str, plan: Mapping[str, Any]) -> list[str]:
    """Return the plan of an executed operation, perhaps by a Tidemill version with other plans.

    For those, and for an operation without text functions, returns the short values of the plan.
    """
    try:
        return WORDS[verb](plan)
    except (LookupError, TypeError, ValueError, AttributeError):
        return [f"{name}: {value}" for name, value in plan.items() if isinstance(value, str | int)]


def _brought_back(name: str, files: Mapping[str, Any]) -> str:
    back = f"{files['archived']} archived files, {files['bytes']} bytes"
    line = f"{name}: {back}, are brought back and read again"
    missing = files["deleted"] + files["in_the_way"]
    return f"{line}; {missing} files that are gone are never read again" if missing else line


def _going_back(plan: Mapping[str, Any]) -> list[str]:
    undone = plan["batches_undone"]
    left = plan["live"] if plan["live"] != plan["parent"] else None
    return [
        f"from {plan['parent']} after batch {plan['batch_id']}, in a new generation"
        + (f"; {left} is left" if left else ""),
        f"batches {undone[0]}-{undone[1]} are undone" if undone else "no batch is undone",
        *(line for name, table in plan["tables"].items() for line in _table_lines(name, table)),
    ]


def _table_lines(name: str, table: Mapping[str, Any]) -> list[str]:
    if table["to"] == table["version"]:
        return [f"{name}: stays at version {table['version']}"]
    rows = "an unknown number of" if table["rows"] is None else table["rows"]
    lines = [
        f"{name}: version {table['version']} -> {table['to']}; {table['batches']} batches, {rows} rows go"
    ]
    if table["returns"]:
        lines.append(f"{name}: batches {table['returns'][0]}-{table['returns'][-1]} come back")
    if table["committed"]:
        lines.append(f"  committed {table['committed'][0]} to {table['committed'][1]}")
    if table["event_times"]:
        lines.append(f"  event times {table['event_times'][0]} to {table['event_times'][1]}")
    if table["maintenance"]:
        lines.append(f"  {table['maintenance']} commits of table maintenance are undone, too")
    return lines


def _meaning(row: Mapping[str, Any]) -> str:
    if row["gone"]:
        return "not there any more: nothing of it is read"
    if row["never_read"]:
        return f"gap: {row['never_read']} records are never read"
    if row.get("is_unknown"):
        return "nothing says how far it was read"
    if row.get("is_another"):
        return "the topic was created again, or moved: all its records are read"
    if row["read_again"]:
        return f"overlap: {row['read_again']} records are read again"
    return "new to the table" if row["stands_at"] is None else "goes on exactly where the table stands"


def _worth_knowing(plan: Mapping[str, Any]) -> list[str]:
    """Return facts that an operator should know before the operation acts."""
    changed = [f"changed since, and from here on: {n}: {c}" for n, c in plan.get("changed", {}).items()]
    if plan.get("late_rows_may_differ"):
        changed.append(
            "where records arrived late, new rows may differ from those that go: other batches move the "
            "watermark at other records, so other records are too late for their window"
        )
    if not plan["unanswered"]:
        return changed
    return [*changed, f"whether the source still has what follows is not known: {plan['unanswered']}"]
