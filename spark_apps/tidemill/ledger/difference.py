"""The difference between the rows of a range and the rows that its records produce."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Difference(BaseModel):
    """The difference in one table or in the quarantine.

    Args:
        name: Its name in the ledger.
        version: The compared version; None if the table does not exist.
        rows: Number of rows that the records produce.
        missing: Number of those rows that are not in the table.
        surplus: Number of rows in the table's range that no record produces.
        missing_rows: The first missing rows, as JSON.
        surplus_rows: The first surplus rows, as JSON.
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
        """Return True if there is no difference."""
        return self.missing == 0 == self.surplus

    def lines(self) -> list[str]:
        """Return the difference as readable lines."""
        at = "no table" if self.version is None else f"version {self.version}"
        if self.is_none:
            return [f"  equal     {self.name}: {self.rows} rows, {at}"]
        told = f"{self.rows} rows expected, {self.missing} missing, {self.surplus} surplus, {at}"
        return [
            f"  differs   {self.name}: {told}",
            *(f"    missing {row}" for row in self.missing_rows),
            *(f"    surplus {row}" for row in self.surplus_rows),
        ]
