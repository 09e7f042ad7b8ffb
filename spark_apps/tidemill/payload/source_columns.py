"""Columns that a source gives beside its own: what the door needs to know, and no row keeps."""

from __future__ import annotations

from tidemill.names import CHANGE_FEED_COLUMNS, RESCUED_DATA

# The batch's clock.
BATCH_TIME = "tidemill_batch_time"

# Of a files source: the file, its modification time, the text of a line that does not fit the schema, why it
# does not, and the line's number where the reading of the file tells it.
FILE = "tidemill_file"
FILE_TIME = "tidemill_file_time"
BROKEN_LINE = "tidemill_broken_line"
BROKEN_REASON = "tidemill_broken_reason"
LINE_NUMBER = "tidemill_line_number"

HIDDEN_COLUMNS = frozenset({BATCH_TIME, FILE, FILE_TIME, BROKEN_LINE, BROKEN_REASON, LINE_NUMBER})

# Of a files source that discovers its columns: a line as it stands in its file, or a whole file of CSV.
# A name that no folder has: Spark would put `7` of a folder `value=7` in the place of the line.
LINE = "tidemill_line"

# Names, in lower case, that Tidemill, Spark or Delta give a meaning of their own.
RESERVED_NAMES = HIDDEN_COLUMNS | {RESCUED_DATA, "_file_path", "_metadata", *CHANGE_FEED_COLUMNS}
