"""How a feed of changes becomes a table: `cdc:` of a Delta sink with mode scd1 or scd2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import Field

from tidemill.spec.column_names import column_named
from tidemill.spec.strict import Strict
from tidemill.spec.text import Column, Expression
from tidemill.spec.units import DurationOrOff

# Modes of a table that is made of changes, and the columns that it has beside those of the changes.
ScdMode = Literal["scd1", "scd2"]
OWN_COLUMNS: dict[str, tuple[str, ...]] = {
    "scd1": ("_sequence", "_deleted_at"),
    "scd2": ("valid_from", "valid_to", "is_current", "_deleted_at"),
}
# One more, if `unchanged` is declared: of each such column the sequence of the change that set its value.
SET_AT = "_set_at"

# A text, or a name that no parenthesis makes a function.
_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"")
_NAME = re.compile(r"`((?:[^`]|``)+)`|([^\W\d][\w.]*)(?!\w|\s*\()")


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
    truncate: Expression | None = Field(
        None,
        description="SQL condition on a change's columns, such as `op = 't'` of Debezium; where it holds, "
        "the change has no key and empties the table: every change with its sequence or a lower one is over, "
        "also one that comes later. scd1 deletes their rows, scd2 ends their intervals. The table keeps "
        "the change as a row without a key and with `_deleted_at`. Null counts as false.",
    )
    unchanged: Expression | dict[Column, Expression] | None = Field(
        None,
        description="Columns whose value a change leaves out, each with an SQL condition on the change's "
        "columns, such as `{body: body = '__debezium_unavailable_value'}` of Debezium. Of one column the "
        "condition alone is enough. Where it holds, the column keeps the value that it had before the "
        "change, by the order of the sequence, whichever change comes first; without one it is null. Null "
        "counts as false. The table gets the column `_set_at`, with the sequence of the change that set each "
        "value.",
    )
    except_columns: list[Column] = Field(
        [], description="Columns of the changes that the table does not keep, such as the operation."
    )
    forget_deletes_after: DurationOrOff = Field(
        "off",
        description="For scd1: how long a deleted key is remembered. An older change of it that comes later "
        "than this brings its row back. By default never.",
    )

    def unchanged_by(self, columns: Iterable[str]) -> Mapping[str, str]:
        """Return the condition under which each column of the changes keeps its value.

        Args:
            columns: Columns of the changes.

        Raises:
            ValueError: If the one condition does not name exactly one of them.
        """
        if isinstance(self.unchanged, dict):
            return self.unchanged
        if self.unchanged is None:
            return {}
        named = named_in(self.unchanged, columns)
        if len(named) != 1:
            raise ValueError(f"the condition names {', '.join(named) or 'no column'}, and not one column")
        return {named[0]: self.unchanged}


def named_in(condition: str, columns: Iterable[str]) -> list[str]:
    """Return the columns that an SQL condition names, each once, in the order of the condition."""
    known = list(columns)
    found = (
        column_named(quoted.replace("``", "`") or plain, known)
        or (None if quoted else column_named(plain.partition(".")[0], known))
        for quoted, plain in _NAME.findall(_TEXT.sub("''", condition))
    )
    return list(dict.fromkeys(name for name in found if name is not None))
