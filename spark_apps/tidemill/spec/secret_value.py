"""Values of secrets, read by code that opens a source, a sink or the storage."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tidemill.errors import SpecError
from tidemill.spec.project import Environment
from tidemill.spec.secret_mask import remember_secret


def read_secret(environment: Environment, name: str, variables: Mapping[str, str] = os.environ) -> str:
    """Read a secret from its mounted file or from the variable TIDEMILL_SECRET_<NAME>.

    A relative folder is relative to the project. From now on, this process masks the value in texts of Spark
    that it shows.

    Raises:
        SpecError: TIDE-SPEC-030, with the places that were searched and without the value.
    """
    value = _find(environment, name, variables)
    remember_secret(value)
    return value


def _find(environment: Environment, name: str, variables: Mapping[str, str]) -> str:
    variable = "TIDEMILL_SECRET_" + name.upper().replace("-", "_")
    looked_in = [f"variable {variable}"]
    if environment.secrets_folder is not None:
        file = environment.secrets_folder / name
        looked_in.insert(0, f"file {file}")
        if file.is_file():
            return file.read_text(encoding="utf-8").strip()
    if value := variables.get(variable):
        return value
    raise SpecError(
        "TIDE-SPEC-030",
        "A secret has no value here.",
        facts={"secret": name, "looked_in": ", ".join(looked_in)},
        fix="mount the file or set the variable for the driver; the value never belongs into conf",
    )
