"""Progress bars for the steps of an operation, one below the other."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tidemill.cli.progress_bar import Show, Stand, progress_bar

if TYPE_CHECKING:
    from types import TracebackType

    from tidemill.storage.advance import Advance


class AdvanceBars:
    """A context manager that shows a bar for each reported step.

    Args:
        quiet: Show nothing, as with `--json`.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._open = ExitStack()
        self._show: Show | None = None

    def __enter__(self) -> AdvanceBars:
        """Return self. Nothing is shown before the first report."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the bar. The bar of failed work stays at its last position."""
        self._open.__exit__(kind, error, trace)

    def tell(self, advance: Advance) -> None:
        """Show the progress of a step, which begins with no file and ends with all files done."""
        if self._show is None:
            self._show = self._open.enter_context(progress_bar(advance.what, "files", quiet=self._quiet))
        self._show(Stand(advance.done, advance.total, size=advance.size))
        if advance.done == advance.total:
            self._open.close()
            self._show = None
