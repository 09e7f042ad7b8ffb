"""A table's state at its newest commit: opened once, then followed commit by commit."""

from __future__ import annotations

from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError

from tidemill.ledger.read import Commit, commits_of
from tidemill.sinks.commit_file import CommitFile, commit_path
from tidemill.storage.access import access_to
from tidemill.storage.store import Store

# Maximum number of commits to follow; then the table is opened again, from its newest log checkpoint. More
# than the commits between two log checkpoints (`CHECKPOINT_EVERY`), at each of which the writer opens the
# table.
FOLLOWED_AT_MOST = 200


class LogView:
    """The table at `path`, and the commits since it was opened.

    Raises:
        TableNotFoundError: deltalake's error if the table does not exist.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.table = DeltaTable(path, storage_options=access_to(path).delta_options())
        self._files = Store(path)
        self._since: list[CommitFile] = []

    @property
    def version(self) -> int:
        """Return the version of the newest known commit."""
        return self._since[-1].commit.version if self._since else self.table.version()

    @property
    def schema(self) -> Schema:
        """Return the columns of the table."""
        return self.table.schema()

    def transaction_version(self, app_id: str) -> int | None:
        """Return the newest batch of an app id; None if the table has none, or has forgotten it."""
        newest_first = (commit.transactions.get(app_id) for commit in reversed(self._since))
        found = next((version for version in newest_first if version is not None), None)
        return self.table.transaction_version(app_id) if found is None else found

    def identity(self, following: int = 0) -> str | None:
        """Return the identity of the newest known commit's file, or of a later one; None if it is missing."""
        return self._files.identity(commit_path(self.path, self.version + following))

    def create(self, version: int, content: bytes) -> bool:
        """Write a commit unless this version exists; of several writers, one gets True."""
        return self._files.create(commit_path(self.path, version), content)

    def follow(self) -> bool:
        """Read the commits since; return False if the table must be opened again to see their effect."""
        while len(self._since) < FOLLOWED_AT_MOST:
            version = self.version + 1
            content = self._files.read(commit_path(self.path, version))
            if content is None:
                return True
            commit = CommitFile.read(version, content)
            if commit is None:
                return False
            self._since.append(commit)
        return False

    def commits_after(self, version: int) -> list[Commit]:
        """Return the known commits after a version that was seen since the view was opened."""
        return [found.commit for found in self._since if found.commit.version > version]

    def commits(self, limit: int | None = None) -> list[Commit]:
        """Return the newest commits, newest first; lists the log."""
        table = self.table
        if self._since:
            table = DeltaTable(self.path, self.version, access_to(self.path).delta_options())
        return commits_of(self.path, table, limit)


def open_view(path: str) -> LogView | None:
    """Return the current table; None if it does not exist."""
    try:
        return LogView(path)
    except TableNotFoundError:
        return None
