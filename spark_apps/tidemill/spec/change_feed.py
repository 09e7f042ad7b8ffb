"""How a feed of changes becomes a table: `cdc:` of a Delta sink with mode scd1 or scd2."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tidemill.spec.strict import Strict
from tidemill.spec.text import Column, Expression
from tidemill.spec.units import DurationOrOff

# Modes of a table that is made of changes, and the columns that it has beside those of the changes.
ScdMode = Literal["scd1", "scd2"]
OWN_COLUMNS: dict[str, tuple[str, ...]] = {
    "scd1": ("_sequence", "_deleted_at"),
    "scd2": ("valid_from", "valid_to", "is_current", "_deleted_at"),
}


class ChangeFeed(Strict):
    """Rows are changes of the keys' rows, in any order, each perhaps several times.

    Of a change feed of Delta's (`read_changes`) the images before an update are left out, and of changes
    with the same `_commit_version` a delete loses: a commit that deletes and inserts a row replaces it.
    """

    sequence_by: Column = Field(
        description="Column that orders the changes of one key: a number, a time, a text or a struct of "
        "these, never null. Changes may come in any order and twice. Of several with the same value a "
        "delete wins, then the one whose columns are greater as JSON, whichever comes first. A Kafka offset "
        "orders only what is in one partition."
    )
    apply_as_deletes: Expression | None = Field(
        None,
        description="SQL condition on a change's columns; where it holds, the change deletes its key's row. "
        "Null counts as false.",
    )
    except_columns: list[Column] = Field(
        [], description="Columns of the changes that the table does not keep, such as the operation."
    )
    forget_deletes_after: DurationOrOff = Field(
        "off",
        description="For scd1: how long a deleted key is remembered. An older change of it that comes later "
        "than this brings its row back. By default never.",
    )
