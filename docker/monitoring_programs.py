"""Sets up the Prometheus that tests load rules into: Debian's package, unpacked, not installed.

Nothing else needs it, so it is no part of `make setup`; `make monitoring` runs this. As there, a step is
skipped while its inputs are what they were.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from set_up import ROOT, SetupError, Step, run, set_up

FOLDER = ROOT / ".cache" / "monitoring"
PACKAGE = "prometheus"


def main() -> int:
    """Create missing files, and report errors without a traceback."""
    try:
        set_up([prometheus_step()])
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def prometheus_step() -> Step:
    """Return the step that installs Prometheus and promtool."""
    return Step(
        title="Prometheus into .cache/monitoring",
        stamp=ROOT / ".cache" / "stamps" / "monitoring",
        inputs=(Path(__file__),),
        outputs=(FOLDER / "usr" / "bin" / "prometheus", FOLDER / "usr" / "bin" / "promtool"),
        tools=("apt-get", "dpkg-deb"),
        make=make_prometheus,
    )


def make_prometheus() -> None:
    """Fetch the package with apt's own checks of its origin, and unpack it; no service is started."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    if not fetch():
        # A new machine has no list of packages yet.
        run("apt-get", "update", "--quiet", "--quiet")
        if not fetch():
            raise SetupError(f"apt-get cannot fetch the package {PACKAGE}; this needs Debian 12 or later")
    (package,) = FOLDER.glob("*.deb")
    run("dpkg-deb", "--extract", package, FOLDER)
    package.unlink()


def fetch() -> bool:
    """Download the package, and return True if that succeeded."""
    command = ["apt-get", "download", "--quiet", "--quiet", PACKAGE]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
