"""Rules that a table requires its writers to apply to each row.

Delta's own writer applies them, but the arrow writer does not. A pipeline declares none of them, but a table
may have been created or altered by hand.
"""

from __future__ import annotations

from deltalake import DeltaTable

from tidemill.names import COLUMN_MAPPING

# Metadata keys of columns whose values the writer must compute or check (Delta transaction log protocol).
_COLUMN_RULES = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


def row_rules(table: DeltaTable) -> list[str]:
    """Return the readable names of the rules, such as `check positive`; empty for a plain table."""
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
