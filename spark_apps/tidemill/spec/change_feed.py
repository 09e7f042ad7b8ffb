"""Rules by which a change feed becomes a table: `cdc:` of a Delta sink with mode scd1 or scd2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import Field

from tidemill.spec.column_names import column_named
from tidemill.spec.strict import Strict
from tidemill.spec.text import Column, Expression
from tidemill.spec.units import DurationOrOff

# Modes of a table made from changes, and the columns that it has in addition to those of the changes.
ScdMode = Literal["scd1", "scd2"]
OWN_COLUMNS: dict[str, tuple[str, ...]] = {
    "scd1": ("_sequence", "_deleted_at"),
    "scd2": ("valid_from", "valid_to", "is_current", "_deleted_at"),
}
# Additional column if `unchanged` is declared. It has the sequence of the change that set each such column.
SET_AT = "_set_at"

# A string literal, or a name that is not followed by a parenthesis.
_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"")
_NAME = re.compile(r"`((?:[^`]|``)+)`|([^\W\d][\w.]*)(?!\w|\s*\()")


class ChangeFeed(Strict):
    """A feed whose rows are changes of rows by key, in any order and possibly with duplicates.

    From Delta's change data feed (`read_changes`), rows with the values before an update are left out. Among
    changes with the same `_commit_version`, a delete loses, because a commit that deletes and inserts a row
    replaces it.
    """

    sequence_by: Column = Field(
        description="Column that orders the changes of one key: a number, a time, text or a struct of these, "
        "never null. Changes may arrive in any order and twice. Among changes with the same value, a delete "
        "wins, and otherwise the change whose columns are greater as JSON, in any order of arrival. A Kafka "
        "offset orders only the records of one partition."
    )
    apply_as_deletes: Expression | None = Field(
        None,
        description="SQL condition on a change's columns. A change that fulfils it deletes its key's row. "
        "Null counts as false.",
    )
    truncate: Expression | None = Field(
        None,
        description="SQL condition on a change's columns, such as `op = 't'` for Debezium. A change that "
        "fulfils it has no key and empties the table. It overrides all changes with the same or a lower "
        "sequence, including those that arrive later: scd1 deletes their rows, and scd2 ends their "
        "intervals. The table keeps the change as a row without a key and with `_deleted_at`. Null counts "
        "as false.",
    )
    unchanged: Expression | dict[Column, Expression] | None = Field(
        None,
        description="Columns whose value a change may leave out, each with an SQL condition on the change's "
        "columns, such as `{body: body = '__debezium_unavailable_value'}` for Debezium. For a single column, "
        "the condition is enough. If the condition holds, the column keeps the value of the previous change "
        "in the sequence, in any order of arrival, or is null if there is none. Null counts as false. The "
        "table gets the column `_set_at`, with the sequence of the change that set each value.",
    )
    except_columns: list[Column] = Field(
        [], description="Columns of the changes that the table does not keep, such as the operation."
    )
    forget_deletes_after: DurationOrOff = Field(
        "off",
        description="For scd1: how long a deleted key is remembered. An older change of the key that arrives "
        "after this time restores its row. By default, deleted keys are remembered forever.",
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
