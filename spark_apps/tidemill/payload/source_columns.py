"""Columns that a source gives beside its own: what the door needs to know, and no row keeps."""

from __future__ import annotations

# The batch's clock.
BATCH_TIME = "tidemill_batch_time"

# Of a files source: the file, its modification time, and the text of a line that does not fit the schema.
FILE = "tidemill_file"
FILE_TIME = "tidemill_file_time"
BROKEN_LINE = "tidemill_broken_line"

HIDDEN_COLUMNS = frozenset({BATCH_TIME, FILE, FILE_TIME, BROKEN_LINE})
