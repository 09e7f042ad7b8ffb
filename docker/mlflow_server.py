"""Set up the MLflow server for tests, in a separate environment, because it needs an older pyarrow.

Nothing else needs it, so it is no part of `make setup`; `make mlflow` runs this. As there, a step is skipped
while its inputs are what they were.
"""

from __future__ import annotations

import sys

from set_up import ROOT, VENV, SetupError, Step, run, set_up

FOLDER = ROOT / ".cache" / "mlflow"
PINS = ROOT / "tests" / "support" / "mlflow" / "requirements.txt"


def main() -> int:
    """Create missing files, and report errors without a traceback."""
    try:
        set_up([mlflow_step()])
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def mlflow_step() -> Step:
    """MLflow with its server."""
    return Step(
        title="an MLflow server into .cache/mlflow",
        stamp=ROOT / ".cache" / "stamps" / "mlflow",
        inputs=(PINS,),
        outputs=(FOLDER / "bin" / "mlflow",),
        tools=(),
        make=make_environment,
    )


def make_environment() -> None:
    """Install what is pinned, by hash; nothing is built."""
    uv = VENV / "bin" / "uv"
    run(uv, "venv", "--quiet", "--clear", "--python", VENV / "bin" / "python", FOLDER)
    into = ("--quiet", "--python", FOLDER / "bin" / "python", "--only-binary", ":all:")
    run(uv, "pip", "sync", *into, "--require-hashes", PINS)


if __name__ == "__main__":
    sys.exit(main())
