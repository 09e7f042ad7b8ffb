"""How the rows of a range differ from those that its records are made into."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Difference(BaseModel):
    """One table, or the quarantine.

    Args:
        name: Its name in the ledger.
        version: The version that was looked at; None if there is no table.
        rows: Rows that the records are made into.
        missing: Of these, how many are not in the table.
        surplus: Rows of the range that are in the table and made of no record.
        missing_rows: The first of them, as JSON.
        surplus_rows: The same.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    version: int | None
    rows: int
    missing: int = 0
    surplus: int = 0
    missing_rows: tuple[str, ...] = ()
    surplus_rows: tuple[str, ...] = ()

    @property
    def is_none(self) -> bool:
        """Whether the two agree."""
        return self.missing == 0 == self.surplus

    def lines(self) -> list[str]:
        """As a person reads it."""
        at = "no table" if self.version is None else f"version {self.version}"
        if self.is_none:
            return [f"  equal     {self.name}: {self.rows} rows, {at}"]
        told = f"{self.rows} rows expected, {self.missing} missing, {self.surplus} surplus, {at}"
        return [
            f"  differs   {self.name}: {told}",
            *(f"    missing {row}" for row in self.missing_rows),
            *(f"    surplus {row}" for row in self.surplus_rows),
        ]
