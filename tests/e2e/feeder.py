"""Sends generated events from inside the cluster until a file says stop, or so many are sent.

Runs on its own in a pod that has Tidemill, so that it lives through all that a test does to connections:
`python -c <this file> ORDER FOLDER`, the order being JSON. Leaves in the folder how many the broker has.
"""

import json
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path

from tidemill.dev.iot_events import IotSettings
from tidemill.dev.produce import Pace, Target, produce

# Seconds between two looks for the file; bounds how late a stop is seen.
LOOK_SECONDS = 0.1


def main() -> None:
    order, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    settings = order["settings"]
    settings["start"] = datetime.fromisoformat(settings["start"])
    settings["interval"] = timedelta(seconds=settings["interval"])
    stop = threading.Event()
    threading.Thread(target=wait_for, args=(folder / "stop", stop), daemon=True).start()
    pace = Pace(order["events_per_second"], order["count"])
    report = produce(Target(order["servers"], order["topic"]), IotSettings(**settings), pace, stop)
    # Only a whole number is ever seen.
    (folder / "unfinished").write_text(str(report.total))
    (folder / "unfinished").rename(folder / "sent")


def wait_for(file: Path, stop: threading.Event) -> None:
    while not file.exists():
        stop.wait(LOOK_SECONDS)
    stop.set()


main()
