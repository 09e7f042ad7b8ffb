"""Rules that a table asks its writers to apply to each row.

Delta's own writer does; the arrow writer does not. They come from outside: a pipeline declares none of
them, but a table may have been made or altered by hand.
"""

from __future__ import annotations

from deltalake import DeltaTable

from tidemill.names import COLUMN_MAPPING

# Keys of a column's metadata whose values its writers compute or check (Delta transaction log protocol).
_COLUMN_RULES = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


def row_rules(table: DeltaTable) -> list[str]:
    """The rules as a person names them, e.g. `check positive`; empty for a plain table."""
    metadata = table.metadata()
    rules = [f"partitioned by {column}" for column in metadata.partition_columns]
    for name in sorted(metadata.configuration):
        if name.startswith("delta.constraints."):
            rules.append(f"check {name.removeprefix('delta.constraints.')}")
    if metadata.configuration.get(COLUMN_MAPPING, "none") != "none":
        rules.append("columns have other names in the files")
    for field in table.schema().fields:
        if not field.nullable:
            rules.append(f"{field.name} is not null")
        rules += [f"{field.name} has {rule}" for rule in _COLUMN_RULES if rule in field.metadata]
    return rules
