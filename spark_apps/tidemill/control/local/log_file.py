"""The log of a driver process on this machine: a growing file."""

from __future__ import annotations

from pathlib import Path

from tidemill.control.driver_log import LogNews, LogPosition, newest_of, position_in
from tidemill.control.runtime import StartedDriver

# Maximum bytes of one read; older lines are left out.
BYTES_AT_ONCE = 256 * 2**10


def read_log_file(driver: StartedDriver, since: LogPosition | None) -> LogNews:
    """Return the new lines; while the driver lives, without an incomplete last line."""
    position = position_in(driver, since)
    try:
        data, start, end = _read(Path(driver.log), position.offset)
    except FileNotFoundError:
        # Only the newest logs are kept.
        return LogNews([], position)
    is_cut = start > position.offset
    if is_cut:
        # The rest of a line that began earlier.
        data = data[data.find(b"\n") + 1 :]
    if driver.alive and not data.endswith(b"\n"):
        whole = data.rfind(b"\n") + 1
        # A line longer than one read is returned in parts.
        if whole or not is_cut:
            end, data = end - len(data) + whole, data[:whole]
    # Spark's JVM does not always write valid UTF-8.
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n") if data else []
    return LogNews(newest_of(driver, lines, is_cut=is_cut), position.model_copy(update={"offset": end}))


def _read(file: Path, offset: int) -> tuple[bytes, int, int]:
    """Return bytes with their start and end."""
    with file.open("rb") as stream:
        end = stream.seek(0, 2)
        start = stream.seek(max(offset, end - BYTES_AT_ONCE))
        data = stream.read(end - start) if end > start else b""
        return data, start, start + len(data)
