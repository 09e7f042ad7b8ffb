"""The files of a model, copied to this machine and identified by their digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tidemill.storage.store import Store


def fetch_folder(store: Store, source: str, target: Path) -> None:
    """Copy a folder of the storage to this machine; a missing folder copies nothing.

    Args:
        store: The storage.
        source: Folder in the storage.
        target: Existing local folder.
    """
    for stored in store.list_files(source):
        # Read before the file is created, because the storage refuses a path that leaves its folder.
        content = store.read(stored.path) or b""
        file = target / stored.path[len(source) + 1 :]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def put_folder(store: Store, source: Path, target: str) -> None:
    """Copy a local folder to the storage; replace existing files and delete all others."""
    copies = {f"{target}/{file.relative_to(source).as_posix()}": file for file in files_of(source)}
    for stored in store.list_files(target):
        if stored.path not in copies:
            store.delete(stored.path)
    for path, file in copies.items():
        store.write(path, file.read_bytes())


def files_of(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted by the bytes of their names."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(files, key=lambda file: file.relative_to(folder).as_posix().encode())


def digest_of(folder: Path) -> str:
    r"""Return the digest of all files below a folder and of their names.

    It equals `find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum`.
    """
    lines = (
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder).as_posix()}\n"
        for file in files_of(folder)
    )
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
