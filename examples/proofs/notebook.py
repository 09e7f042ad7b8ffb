"""The notebook's examples: words from a socket, and activity data."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from examples.proofs.activity import (
    ARRIVAL_MS,
    FILES,
    ROWS_PER_FILE,
    land_activity,
    per_user,
    stream_1p,
)
from examples.proofs.example import Example, Result
from tests.support.line_server import line_server

if TYPE_CHECKING:
    from examples.proofs.stage import Stage

# On average.
SECONDS_OF_A_YEAR = 31_556_952
LINES = ["to be", "or not to be"]
AS_THEY_ARE = ("Creation_Time", "Device", "Model", "User", "gt", "x", "y", "z")


def words_of_a_socket(stage: Stage) -> Sequence[Result]:
    """Return the words that the console shows in the end."""
    from examples.proofs.stage import printed

    words = Counter(" ".join(LINES).split(" "))
    with line_server() as server, printed() as console:
        stage.listen_on("repository/socket_word_count", server.port)
        with stage.live("repository/socket_word_count") as stream:
            server.accept()
            server.send(*LINES)
            stream.wait_until(lambda: shown(console.getvalue()) == words, "the console shows all words")
            stream.drain()
    return [Result("console", list(shown(console.getvalue()).items()), list(words.items()))]


def shown(console: str) -> dict[str, int]:
    """Words and numbers of the newest batch on a console."""
    newest = re.split(r"^batch \d+$", console, flags=re.MULTILINE)[-1]
    return {word: int(count) for word, count in re.findall(r"\|(\w+) *\|(\d+) ", newest)}


def activity_files(stage: Stage) -> Sequence[Result]:
    """One file a batch; the index is the user's id."""
    rows = land_activity(stage)
    stage.run("repository/activity_data")
    expected = [
        (
            datetime.fromtimestamp(row["Arrival_Time"] / 1000, tz=UTC),
            row["Index"],
            *(row[c] for c in AS_THEY_ARE),
        )
        for row in rows
    ]
    seen = stage.rows("bronze/activity_data", "Arrival_Time", "User_ID", *AS_THEY_ARE)
    batches = [commit.entry.rows for commit in stage.lake.ledger("bronze/activity_data") if commit.entry]
    as_in_the_notebook = stage.spark.read.schema("Arrival_Time timestamp").json(
        str(stage.lake.root / "landing/activity_data/0.json")
    )
    years = as_in_the_notebook.selectExpr("year(Arrival_Time)").distinct().collect()
    return [
        Result(
            "year by the notebook's schema",
            [row[0] for row in years],
            [1970 + ARRIVAL_MS // SECONDS_OF_A_YEAR],
        ),
        Result("bronze/activity_data", seen, expected),
        Result("rows of each batch", batches, [ROWS_PER_FILE] * FILES),
    ]


def sorted_activity(stage: Stage) -> Sequence[Result]:
    """An aggregate may be sorted."""
    land_activity(stage)
    stage.run("activity_by_user")
    return [
        Result("gold/activity_by_user", stage.rows("gold/activity_by_user", "User", "readings"), per_user())
    ]


def activity_as_json(stage: Stage) -> Sequence[Result]:
    """Write the files with a separate driver."""
    rows = land_activity(stage)
    stream_1p(stage)
    seen = stage.exported("exports/stream_1p", "User_ID", "Device", "x", kind="json")
    return [Result("exports/stream_1p", seen, [(row["Index"], row["Device"], row["x"]) for row in rows])]


def progress_of_a_query(stage: Stage) -> Sequence[Result]:
    """The running query, until it is stopped."""
    told = stream_1p(stage)
    active = json.loads(stage.tidemill("queries", "--json")[1])
    batches = {one["batchId"]: one["numInputRows"] for one in told["query"]["recent_progress"]}
    waited, _ = stage.tidemill("queries", "wait", "stream_1p", "--timeout", "1s")
    stopped, _ = stage.tidemill("stop", "stream_1p")
    ended, said = stage.tidemill("queries", "wait", "stream_1p")
    ids = [len(told["query"][name]) for name in ("id", "query_run_id")]
    return [
        Result("active queries", [(one["pipeline"], one["active"]) for one in active], [("stream_1p", True)]),
        Result("ids", ids, [36, 36]),
        Result(
            "recent progress",
            [(batch, rows) for batch, rows in batches.items() if rows],
            [(batch, ROWS_PER_FILE) for batch in range(FILES)],
        ),
        Result("wait, stop, wait", [waited, stopped, ended, "ended well" in said], [1, 0, 0, True]),
    ]


def table_in_memory(stage: Stage) -> Sequence[Result]:
    """Queried while it runs, and gone from the active ones in the end."""
    land_activity(stage)
    with stage.live("stream_2p") as stream:
        stream.wait_until(
            lambda: sum(row[1] for row in stage.in_memory("stream_2p")) == FILES * ROWS_PER_FILE, "all"
        )
        seen, active = stage.in_memory("stream_2p"), stage.active_queries()
        stream.drain()
    ended = [name for name in active if name not in stage.active_queries()]
    return [
        Result("memory stream_2p", seen, per_user()),
        Result("active while it runs, and not afterwards", ended, ["stream_2p"]),
    ]


EXAMPLES = [
    Example(
        7,
        "notebook",
        "lines of a socket, split into words and counted, to the console in complete mode every 2 seconds",
        ("repository/socket_word_count",),
        note="words are lower-cased, without punctuation",
        proof=words_of_a_socket,
    ),
    Example(
        8,
        "notebook",
        "activity JSON with a schema, one file per trigger, `Index` renamed",
        ("repository/activity_data",),
        note="the data's times are numbers. The notebook's type `timestamp` would read them as seconds, in "
        "the year 47116",
        proof=activity_files,
    ),
    Example(
        9,
        "notebook",
        "`orderBy` on a stream",
        ("activity_by_user",),
        refused={"activity_sorted": "TIDE-PLAN-010"},
        note="Spark 4.2 also refuses it; an aggregate may be sorted. The notebook catches a different error: "
        "the data has no column `Recorded_At`",
        proof=sorted_activity,
    ),
    Example(
        10,
        "notebook",
        "(8) into JSON files: append, every second, with a name and a checkpoint",
        ("stream_1p",),
        note="the pipeline's name is also the query name and names the checkpoint",
        proof=activity_as_json,
    ),
    Example(
        11,
        "notebook",
        "recent progress, active queries, wait 5 seconds, stop",
        ("stream_1p",),
        proof=progress_of_a_query,
    ),
    Example(
        12,
        "notebook",
        "`display`: a named table in memory in complete mode, queried by SQL, found by name, all stopped",
        ("stream_2p",),
        refused={"stream_2p": "TIDE-PLAN-015"},
        note='complete mode needs an aggregate. While its driver runs, `tidemill query "SELECT * FROM '
        'memory.stream_2p"` reads the table, and `tidemill watch stream_2p` draws it',
        proof=table_in_memory,
    ),
]
