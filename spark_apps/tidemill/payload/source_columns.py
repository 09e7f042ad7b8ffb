"""Columns that a source adds for the door; rows do not keep them."""

from __future__ import annotations

from tidemill.names import CHANGE_FEED_COLUMNS, RESCUED_DATA

# The batch's clock.
BATCH_TIME = "tidemill_batch_time"

# Columns of a files source: the URI under which a file arrived, and its modification time.
FILE = "tidemill_file"
FILE_TIME = "tidemill_file_time"

# Columns of a files source: a range of a file, which a task reads. The location is a URI; for an archived
# file it differs from the URI under which the file arrived.
RANGE_LOCATION = "tidemill_range_location"
RANGE_START = "tidemill_range_start"
RANGE_LENGTH = "tidemill_range_length"
RANGE_SIZE = "tidemill_range_size"

# Column of a joined folder's files. They may be read only if they have not changed since the listing.
AS_LISTED = "tidemill_as_listed"

HIDDEN_COLUMNS = frozenset(
    {AS_LISTED, BATCH_TIME, FILE, FILE_TIME, RANGE_LOCATION, RANGE_START, RANGE_LENGTH, RANGE_SIZE}
)

# Lower-case names that have a special meaning for Tidemill, Spark or Delta.
RESERVED_NAMES = HIDDEN_COLUMNS | {RESCUED_DATA, "_file_path", "_metadata", *CHANGE_FEED_COLUMNS}
