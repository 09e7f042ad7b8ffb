"""Write transactions into a database that supports database transactions."""

import os
import sqlite3

from pyspark.sql import DataFrame

from tidemill.sinks.batch_token import BatchToken

TABLE = "CREATE TABLE IF NOT EXISTS processed_events (event_id text, user_id text, amount real)"


def write(rows: DataFrame, token: BatchToken) -> None:
    """Add the rows of a batch once, however often it is repeated: rows and token are one transaction."""
    connection = sqlite3.connect(os.environ["PROCESSED_EVENTS_DATABASE"])
    try:
        with token.once(connection) as is_new:
            if is_new:
                connection.execute(TABLE)
                values = [(row["event_id"], row["user_id"], row["amount"]) for row in rows.collect()]
                connection.executemany("INSERT INTO processed_events VALUES (?, ?, ?)", values)
    finally:
        connection.close()
