"""Location of the jars that the set-up resolved.

`make setup` copies the jars of `docker/jars.xml` into `.cache/jars/spark`, `s3a`, `broker` and, for tests,
`postgres` of the checkout. An image names its own folder in `TIDEMILL_JARS`. Nothing is downloaded here.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidemill.errors import SpecError

JARS_VARIABLE = "TIDEMILL_JARS"

# spark_apps/tidemill/jars.py -> the checkout. An installed copy has no .cache there, and the error names the
# folder.
_CHECKOUT = Path(__file__).resolve().parents[2]


def spark_jars() -> list[Path]:
    """Return the jars that a driver and its executors need in addition to pyspark's, sorted by name.

    Raises:
        SpecError: TIDE-JARS-001, if there are none.
    """
    return _jars("spark")


def s3_jars() -> list[Path]:
    """Return the additional jars for a storage root on S3, sorted by name.

    Raises:
        SpecError: TIDE-JARS-001, if there are none.
    """
    return _jars("s3a")


def broker_jars() -> list[Path]:
    """Return the class path of the local Kafka broker, sorted by name.

    Raises:
        SpecError: TIDE-JARS-001, if there are none.
    """
    return _jars("broker")


def jars_folder(purpose: str) -> Path:
    """Return the folder of one set of jars, which may not exist."""
    named = os.environ.get(JARS_VARIABLE)
    return (Path(named) if named else _CHECKOUT / ".cache" / "jars") / purpose


def _jars(purpose: str) -> list[Path]:
    folder = jars_folder(purpose)
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        raise SpecError(
            "TIDE-JARS-001",
            f"There are no jars for {purpose}.",
            facts={"looked_in": folder, JARS_VARIABLE: os.environ.get(JARS_VARIABLE) or "not set"},
            fix=f"make setup, or set {JARS_VARIABLE} to a folder that holds spark/, s3a/ and broker/",
            runbook="stream-does-not-start",
        )
    return jars
