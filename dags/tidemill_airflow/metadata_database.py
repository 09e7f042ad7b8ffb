"""Cheap queries of Airflow's metadata database, for the chart's init containers and probes.

    python -m tidemill_airflow.metadata_database VERB …

`airflow db check-migrations` and `airflow jobs check` import all of Airflow. This costs seconds of CPU time
on each call in each pod. These commands need only one connection.

    reachable           wait until the database answers
    mark KEY            record that the database is up to date for KEY
    marked KEY          wait until KEY is marked
    once KEY COMMAND…   run a command and mark KEY, unless KEY is marked already
    beating JOB_TYPE    fail if no job of this type on this host has sent a heartbeat lately

Marks are never deleted. After a rollback, the older pods find their mark and start at once.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import psycopg2
from psycopg2.extensions import connection as Connection  # a class, named like a function

# Seconds to wait for the database or the migration. A first start on two busy cores takes one minute. Then
# the container ends, and Kubernetes restarts it with backoff.
WAIT_SECONDS = 600
POLL_SECONDS = 1.0

# Seconds for one connection, because a packet that a network policy drops gets no answer.
CONNECT_SECONDS = 5

# Maximum age of the last heartbeat of a running job, in seconds. Jobs send one every 5 seconds; a busy
# machine delays it.
HEARTBEAT_SECONDS = 120

# The client reads a line end as part of the database's name, and ends the password at a bare @ or /. Its
# error message would then show the rest of the password.
URL = re.compile(r"[^\s:/]+://(?:(?:[^\s@/%]|%[0-9A-Fa-f]{2})*@)?[^\s@]*")


def connect() -> Connection:
    """Connect to the database of Airflow's variable, whose scheme also names the SQLAlchemy driver."""
    text = os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    if URL.fullmatch(text) is None:
        raise SystemExit(
            "key `connection` of the database's Secret is not a URL: it has white space, such as a line's"
            " end, or a user or password that is not percent-encoded (helm/README.md, Secrets)"
        )
    scheme, _, rest = text.partition("://")
    return psycopg2.connect(f"{scheme.partition('+')[0]}://{rest}", connect_timeout=CONNECT_SECONDS)


def mark(connection: Connection, key: str) -> None:
    """Write the mark once."""
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS tidemill_marks (key text PRIMARY KEY, at timestamptz)")
        cursor.execute("INSERT INTO tidemill_marks VALUES (%s, now()) ON CONFLICT DO NOTHING", (key,))


def is_marked(connection: Connection, key: str) -> bool:
    """Return True if the mark exists; the first mark creates the table."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('tidemill_marks')")
        if cursor.fetchone() == (None,):
            return False
        cursor.execute("SELECT 1 FROM tidemill_marks WHERE key = %s", (key,))
        return cursor.fetchone() is not None


def once(key: str, command: list[str]) -> None:
    """Run the command unless the key is marked; an unreachable database is an error."""
    connection = connect()
    if not is_marked(connection, key):
        subprocess.run(command, check=True)
        mark(connection, key)


def is_beating(connection: Connection, job_type: str) -> bool:
    """Return True if this host's newest job of the type has a recent heartbeat, or if it has none yet."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM now() - max(latest_heartbeat)) FROM job"
            " WHERE job_type = %s AND hostname = %s",
            (job_type, socket.getfqdn()),
        )
        (age,) = cursor.fetchone() or (None,)
    return age is None or age < HEARTBEAT_SECONDS


def wait(question: Callable[[Connection], bool]) -> bool:
    """Poll until the answer is yes and return True; False on timeout. Each new reason is logged at once."""
    deadline = time.monotonic() + WAIT_SECONDS
    told = ""
    while time.monotonic() < deadline:
        reason = "not yet"
        try:
            connection = connect()
            try:
                if question(connection):
                    return True
            finally:
                connection.close()
        except psycopg2.OperationalError as error:
            reason = str(error).strip()
        if reason != told:
            told = reason
            sys.stderr.write(f"waiting: {reason}\n")
        time.sleep(POLL_SECONDS)
    sys.stderr.write(f"gave up after {WAIT_SECONDS} s: {told}\n")
    return False


def beating(job_type: str) -> bool:
    """Return True if the job is alive, or if the database is unavailable.

    A restart of the container would not fix the database.
    """
    try:
        connection = connect()
    except psycopg2.OperationalError:
        return True
    return is_beating(connection, job_type)


def main(verb: str, argument: str = "", *command: str) -> bool:
    """Run one command and return True on success."""
    if verb == "reachable":
        return wait(lambda _: True)
    if verb == "mark":
        mark(connect(), argument)
        return True
    if verb == "marked":
        return wait(lambda connection: is_marked(connection, argument))
    if verb == "once":
        once(argument, list(command))
        return True
    if verb == "beating":
        return beating(argument)
    raise SystemExit(f"unknown verb {verb}\n{__doc__}")


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
