"""Sets up the object stores that tests start on this machine: Azurite, and a server that speaks S3.

Nothing else needs them, so they are no part of `make setup`; `make stores` runs this. As there, a step is
skipped while its inputs are what they were.
"""

from __future__ import annotations

import shutil
import sys

from set_up import ROOT, SetupError, Step, run, set_up

STORES = ROOT / ".cache" / "stores"
AZURITE_PINS = ROOT / "tests" / "support" / "azurite"
S3_SERVER_PINS = ROOT / "tests" / "support" / "s3"
S3_SERVER = "github.com/versity/versitygw/cmd/versitygw"


def main() -> int:
    """Create missing files, and report errors without a traceback."""
    try:
        set_up(store_steps())
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def store_steps() -> list[Step]:
    """One step for each server."""
    stamps = ROOT / ".cache" / "stamps"
    return [
        Step(
            title="Azurite into .cache/stores",
            stamp=stamps / "azurite",
            inputs=(AZURITE_PINS / "package.json", AZURITE_PINS / "package-lock.json"),
            outputs=(STORES / "azurite" / "node_modules" / "azurite" / "package.json",),
            tools=("node", "npm"),
            make=make_azurite,
        ),
        Step(
            title="an S3 server into .cache/stores (two minutes)",
            stamp=stamps / "s3-server",
            inputs=(S3_SERVER_PINS / "go.mod", S3_SERVER_PINS / "go.sum"),
            outputs=(STORES / "s3-server",),
            tools=("go",),
            make=make_s3_server,
        ),
    ]


def make_azurite() -> None:
    """Install the packages that package-lock.json pins by hash, without running their scripts."""
    folder = STORES / "azurite"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(AZURITE_PINS / name, folder)
    options = ("--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--silent")
    run("npm", "--prefix", folder, "ci", *options)


def make_s3_server() -> None:
    """Build what go.mod names, from modules with the hashes of go.sum."""
    run("go", "build", "-C", S3_SERVER_PINS, "-mod=readonly", "-o", STORES / "s3-server", S3_SERVER)


if __name__ == "__main__":
    sys.exit(main())
