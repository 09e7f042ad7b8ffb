"""Trash: `trash/<request id>/…`, where operations move files instead of deleting them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidemill.checkpoint.procedure.request import check_request_id
from tidemill.errors import InternalError
from tidemill.names import Layout
from tidemill.storage.store import Store


@dataclass(frozen=True)
class TrashedRequest:
    """The files that one request moved to the trash.

    Args:
        request_id: Id of the request.
        newest: Time when its newest file was moved.
        files: Number of files.
        size: Total size in bytes.
    """

    request_id: str
    newest: datetime
    files: int
    size: int


def trash_folder(layout: Layout, pipeline: str, request_id: str) -> str:
    """Return the trash folder of one request."""
    return f"{layout.trash(pipeline)}/{check_request_id(request_id)}"


def move_to_trash(store: Store, layout: Layout, pipeline: str, request_id: str, path: str) -> int:
    """Move a file, or a folder with its content, to the trash; return the number of moved files.

    The path below the trash is the path below the state folder, so an operator can move files back. After a
    crash, a repetition moves the remaining files.

    Raises:
        InternalError: TIDE-CKPT-038, if `path` is not below the pipeline's state folder.
    """
    state = layout.state(pipeline)
    if not path.startswith(f"{state}/") or path.startswith(layout.trash(pipeline)):
        raise InternalError(
            "TIDE-CKPT-038",
            "Only what lies in a pipeline's state folder can be moved to its trash.",
            facts={"pipeline": pipeline, "path": path},
        )
    target = trash_folder(layout, pipeline, request_id)
    # A listing covers folders, but the path may be a file.
    paths = [file.path for file in store.list_files(path)] or [path]
    for found in paths:
        store.move(found, f"{target}/{found.removeprefix(f'{state}/')}")
    store.remove_empty_folders(path)
    return len(paths)


def read_trash(store: Store, layout: Layout, pipeline: str) -> list[TrashedRequest]:
    """Return the content of the trash, by request."""
    folder = layout.trash(pipeline)
    found: dict[str, TrashedRequest] = {}
    for file in store.list_files(folder):
        request_id = file.path.removeprefix(f"{folder}/").partition("/")[0]
        so_far = found.get(request_id, TrashedRequest(request_id, file.modified, 0, 0))
        newest = max(so_far.newest, file.modified)
        found[request_id] = TrashedRequest(request_id, newest, so_far.files + 1, so_far.size + file.size)
    return list(found.values())
