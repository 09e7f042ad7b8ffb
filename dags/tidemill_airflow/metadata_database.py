"""Cheap looks at Airflow's metadata database, for init containers and probes of the chart.

    python -m tidemill_airflow.metadata_database VERB …

`airflow db check-migrations` and `airflow jobs check` import all of Airflow: seconds of a core, each time, in
each pod. These questions need one connection.

    reachable           wait until the database answers
    mark KEY            write down that the database is up to date for KEY
    marked KEY          wait until someone wrote that
    once KEY COMMAND…   run a command and mark KEY, unless KEY is marked already
    beating JOB_TYPE    fail if no job of this type on this host has sent a heartbeat lately

A mark stays for ever: after a rollback the older pods find theirs and start at once.
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

# Seconds to wait for the database or the migration; a first start on two busy cores takes one minute. The
# container then ends, and Kubernetes starts it again after a growing pause.
WAIT_SECONDS = 600
POLL_SECONDS = 1.0

# Seconds for one connection: a packet that a policy drops gets no answer at all.
CONNECT_SECONDS = 5

# Oldest heartbeat of a living job, in seconds. Jobs send one every 5; a busy machine delays it.
HEARTBEAT_SECONDS = 120

# A client takes a line's end for a part of the database's name, and a bare @ or / of a password for its end:
# the complaint then shows the rest.
URL = re.compile(r"[^\s:/]+://(?:(?:[^\s@/%]|%[0-9A-Fa-f]{2})*@)?[^\s@]*")


def connect() -> Connection:
    """Connect to the database of Airflow's own variable, whose scheme names SQLAlchemy's driver."""
    text = os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    if URL.fullmatch(text) is None:
        raise SystemExit(
            "key `connection` of the database's Secret is not a URL: it has white space, such as a line's"
            " end, or a user or password that is not percent-encoded (helm/README.md, Secrets)"
        )
    scheme, _, rest = text.partition("://")
    return psycopg2.connect(f"{scheme.partition('+')[0]}://{rest}", connect_timeout=CONNECT_SECONDS)


def mark(connection: Connection, key: str) -> None:
    """Write the mark down, once."""
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS tidemill_marks (key text PRIMARY KEY, at timestamptz)")
        cursor.execute("INSERT INTO tidemill_marks VALUES (%s, now()) ON CONFLICT DO NOTHING", (key,))


def is_marked(connection: Connection, key: str) -> bool:
    """Whether the mark is there; the table is made with the first one."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('tidemill_marks')")
        if cursor.fetchone() == (None,):
            return False
        cursor.execute("SELECT 1 FROM tidemill_marks WHERE key = %s", (key,))
        return cursor.fetchone() is not None


def once(key: str, command: list[str]) -> None:
    """Run the command unless the key is marked; no answer is an error, never a no."""
    connection = connect()
    if not is_marked(connection, key):
        subprocess.run(command, check=True)
        mark(connection, key)


def is_beating(connection: Connection, job_type: str) -> bool:
    """Whether the newest job of this type on this host has sent a heartbeat lately, or there is none yet."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM now() - max(latest_heartbeat)) FROM job"
            " WHERE job_type = %s AND hostname = %s",
            (job_type, socket.getfqdn()),
        )
        (age,) = cursor.fetchone() or (None,)
    return age is None or age < HEARTBEAT_SECONDS


def wait(question: Callable[[Connection], bool]) -> bool:
    """Ask until the answer is yes; False if time is up. Each new reason is told at once."""
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
    """A database that is unavailable is not the fault of who asks: a restart would not bring it back."""
    try:
        connection = connect()
    except psycopg2.OperationalError:
        return True
    return is_beating(connection, job_type)


def main(verb: str, argument: str = "", *command: str) -> bool:
    """Carry out one verb; True if all is well."""
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
