"""The real driver, with classes of the tests in its Spark: `python -m tests.support.altered_driver …`.

Its command line is that of `tidemill.engine.driver`, which knows nothing of all this: the function that
decides its settings is made to say some more, before it runs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidemill.control.driver_command import DriverRun, driver_command
from tidemill.engine import driver, session
from tidemill.jars import s3_jars
from tidemill.spec.project import Environment

_CLASSES = "TIDEMILL_TEST_CLASSES"
_SETTINGS = "TIDEMILL_TEST_SPARK_CONF"


def altered_driver_command(environment: Environment, run: DriverRun) -> list[str]:
    """Return the real command line, with this module for the engine's."""
    program, flag, _, *arguments = driver_command(environment, run)
    return [program, flag, "tests.support.altered_driver", *arguments]


def altered(classes: Path, settings: Mapping[str, str], **variables: str) -> dict[str, str]:
    """Environment variables of an altered driver.

    Args:
        classes: Folder of compiled classes.
        settings: Spark settings.
        variables: Further ones, for the classes to read.
    """
    return {_CLASSES: str(classes), _SETTINGS: json.dumps(dict(settings)), **variables}


def main() -> int:
    """Run the driver."""
    of_the_product = session.session_conf
    # Behind all that a driver has, so that the class archive is still good for it.
    os.environ["SPARK_DIST_CLASSPATH"] = ":".join(map(str, [*s3_jars(), os.environ[_CLASSES]]))
    more = json.loads(os.environ[_SETTINGS])

    def session_conf(*arguments: Any) -> dict[str, str]:
        return {**of_the_product(*arguments), **more}

    session.session_conf = session_conf
    return driver.main()


if __name__ == "__main__":
    sys.exit(main())
