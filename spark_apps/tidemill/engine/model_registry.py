"""Registered models: the current version of a name, and its files, through MLflow's client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tidemill.errors import SpecError, TidemillError, UnavailableError
from tidemill.spec.models import DeclaredModel
from tidemill.spec.project import Environment
from tidemill.spec.secret_mask import mask_secrets
from tidemill.spec.secret_value import read_secret

# Error codes of the registry for a name, alias, version or stage that does not exist.
_NOT_THERE = frozenset({"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND"})

# Retries of one request with growing delays, some seconds in total. A failed driver is started again anyway.
_RETRIES = "3"


def fetch_registered(environment: Environment, name: str, declared: DeclaredModel, target: Path) -> str:
    """Find a registered model, and copy its files.

    Args:
        environment: Environment with the registry.
        name: Name of the model in the pipeline file.
        declared: Declaration with the URI.
        target: Empty folder for the files.

    Returns:
        The version that was found.

    Raises:
        SpecError: TIDE-MODEL-002, if there is no such model; -008, if a package to load it is missing; -009,
            if its files are on another server.
        UnavailableError: TIDE-MODEL-005, if the registry does not answer.
    """
    from mlflow import MlflowClient
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.utils.models import get_model_name_and_version

    facts: dict[str, object] = {
        "model": name,
        "uri": declared.uri,
        "registry": environment.model_registry.address,
    }
    with _known_to_mlflow(environment):
        try:
            client = MlflowClient()
            registered, version = get_model_name_and_version(client, declared.uri)  # type: ignore[no-untyped-call]
            _check_place(client.get_model_version_download_uri(registered, version), facts)
            # By version number, because an alias that is moved now would give another version.
            download_artifacts(f"models:/{registered}/{version}", dst_path=str(target))
        except MlflowException as error:
            raise _refusal(error, facts) from error
        except OSError as error:
            raise _no_answer(error, facts) from error
        except ImportError as error:
            raise SpecError(
                "TIDE-MODEL-008",
                "The registry keeps the model's files where MLflow needs a package that is missing.",
                facts={**facts, "reason": _reason(error)},
                fix="let the MLflow server hand the files over (--serve-artifacts), or install the package "
                "in the drivers' image, with access of its own to that store",
            ) from error
    return str(version)


def _check_place(place: str, facts: dict[str, object]) -> None:
    """Refuse another server, because MLflow would send the registry's credentials to it.

    Raises:
        SpecError: TIDE-MODEL-009.
    """
    registry, found = urlsplit(str(facts["registry"])), urlsplit(place)
    is_served = found.scheme in ("http", "https", "mlflow-artifacts") and found.netloc
    if is_served and (found.hostname, found.port) != (registry.hostname, registry.port):
        raise SpecError(
            "TIDE-MODEL-009",
            "The registry says that the model's files are on another server, which would be given the "
            "registry's credentials. Nothing was asked there.",
            facts={**facts, "server": found.hostname},
            fix="register the version with files in the registry's own store; see who registered this one",
        )


def _refusal(error: Exception, facts: dict[str, object]) -> TidemillError:
    if getattr(error, "error_code", None) not in _NOT_THERE and "No versions of model" not in str(error):
        return _no_answer(error, facts)
    return SpecError(
        "TIDE-MODEL-002",
        "There is no such model.",
        facts={**facts, "reason": _reason(error)},
        fix="correct the name, version, alias or stage; or give a version that alias in the registry",
    )


def _no_answer(error: Exception, facts: dict[str, object]) -> UnavailableError:
    return UnavailableError(
        "TIDE-MODEL-005",
        "The model registry does not answer, or does not hand the files over.",
        facts={**facts, "reason": _reason(error)},
        fix="see the registry, or correct `model_registry`; nothing was started, read or written",
    )


def _reason(error: Exception) -> str:
    return mask_secrets(" ".join(str(error).split())[:300])


@contextmanager
def _known_to_mlflow(environment: Environment) -> Iterator[None]:
    """Set MLflow's variables with address and credentials; remove them before Spark starts."""
    registry = environment.model_registry
    told = {
        "MLFLOW_TRACKING_URI": registry.address,
        "MLFLOW_REGISTRY_URI": registry.address,
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": _RETRIES,
    }
    if registry.token is not None:
        told["MLFLOW_TRACKING_TOKEN"] = read_secret(environment, registry.token)
    if registry.username is not None and registry.password is not None:
        told["MLFLOW_TRACKING_USERNAME"] = registry.username
        told["MLFLOW_TRACKING_PASSWORD"] = read_secret(environment, registry.password)
    if registry.ca_file is not None:
        told["MLFLOW_TRACKING_SERVER_CERT_PATH"] = str(environment.project.folder / registry.ca_file)
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
