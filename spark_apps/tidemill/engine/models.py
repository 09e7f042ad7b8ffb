"""MLflow models in a transform: resolved once at a driver's start, applied to streams and batches alike."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.engine.model_files import digest_of, fetch_folder, put_folder
from tidemill.engine.model_registry import fetch_registered
from tidemill.errors import DataError, GateRefusedError, SpecError
from tidemill.names import Layout, literal_glob
from tidemill.spec.models import DeclaredModel, Flavour, ResolvedModel
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

log = structlog.get_logger()

# Name of the column that a Python model adds. Spark models use the same name.
PREDICTION = "prediction"

# MLflow sends usage data to its makers unless this is set.
_SILENT = {"MLFLOW_DISABLE_TELEMETRY": "true"}

Apply = Callable[[DataFrame, tuple[str, ...]], DataFrame]


@dataclass(frozen=True)
class Model:
    """A model, as a transform receives it.

    Args:
        name: Its name in the pipeline file.
        apply: Returns rows with predictions.
    """

    name: str
    apply: Apply

    def predict(self, rows: DataFrame, *columns: str) -> DataFrame:
        """Return the rows with predictions: the columns of a Spark model, or one column `prediction`.

        Args:
            rows: Rows with the input columns of the model.
            columns: Input columns of a Python model. Default: the columns of its signature.

        Raises:
            ValueError: If the model has no signature and needs `columns`, or is a Spark model and takes none.
        """
        return self.apply(rows, columns)


def with_models(pipeline: Pipeline, store: Store) -> Pipeline:
    """Return the pipeline with its models resolved, copied to this machine and compared with the declaration.

    The only file of a model that is opened is `MLmodel`, and only after its digest was checked.

    Raises:
        SpecError: TIDE-MODEL-001 without MLflow; -002 if there is no such model; -004 for an unsupported
            kind.
        GateRefusedError: TIDE-MODEL-003, if its files differ from the declared digest.
        UnavailableError: TIDE-MODEL-005, if the registry does not answer.
    """
    if not pipeline.spec.models:
        return pipeline
    if importlib.util.find_spec("mlflow") is None:
        raise SpecError(
            "TIDE-MODEL-001",
            "The pipeline applies models, and MLflow is not installed where its driver runs.",
            facts={"pipeline": pipeline.name, "models": ", ".join(pipeline.spec.models)},
            fix="install the extra `models` of Tidemill, and what the models need, in the drivers' image",
        )
    os.environ.update(_SILENT)
    found = {name: _resolve(pipeline, store, name, model) for name, model in pipeline.spec.models.items()}
    for name, model in found.items():
        told = {"uri": model.uri, "version": model.version, "digest": model.digest}
        log.info("model", pipeline=pipeline.name, model=name, **told)
    return replace(pipeline, models=found)


def _resolve(pipeline: Pipeline, store: Store, name: str, declared: DeclaredModel) -> ResolvedModel:
    """Resolve a model. Order is the guarantee: 1. copy its files, 2. check the digest, 3. find a flavour."""
    found_in = declared.uri or declared.path
    facts: dict[str, object] = {"pipeline": pipeline.name, "model": name, "found_in": found_in}
    # 1.
    folder, version = _own_folder(), None
    if declared.uri is not None:
        version = fetch_registered(pipeline.environment, name, declared, folder)
    else:
        fetch_folder(store, pipeline.layout.folder(str(declared.path)), folder)
    if not any(folder.iterdir()):
        raise SpecError(
            "TIDE-MODEL-002",
            "There is no such model.",
            facts=facts,
            fix="put the folder that MLflow saved there, below the storage root; or correct `path`",
        )
    # 2.
    digest = digest_of(folder)
    if declared.digest not in (None, digest):
        raise GateRefusedError(
            "TIDE-MODEL-003",
            "The model's files are not those that were declared. None was loaded, and nothing was started.",
            facts={**facts, "declared": declared.digest, "found": digest},
            fix="see who changed them and put the old ones back; if that is meant, declare the new digest",
        )
    # 3.
    uri = declared.uri or f"path:{declared.path}"
    flavour = _flavour(folder, declared, facts)
    return ResolvedModel(uri, digest, flavour, str(folder), version, declared.result_type)


def _own_folder() -> Path:
    """Return a private temporary folder, which is deleted at the end of the process."""
    folder = tempfile.mkdtemp(prefix="tidemill-model-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _flavour(folder: Path, declared: DeclaredModel, facts: dict[str, object]) -> Flavour:
    """Return the flavour, Spark's if the model has it.

    As a Python function, a Spark model would need a Spark session in each task.
    """
    from mlflow.models import Model as MlModel

    flavours: list[str] = []
    if (folder / "MLmodel").is_file():
        flavours = sorted(MlModel.load(str(folder)).flavors)
    if "spark" in flavours and declared.result_type is None:
        return "spark"
    if "python_function" in flavours and "spark" not in flavours:
        return "python_function"
    raise SpecError(
        "TIDE-MODEL-004",
        "The model cannot be applied to rows.",
        facts={**facts, "flavours": ", ".join(flavours) or "none", "result_type": declared.result_type},
        fix="leave `result_type` out: a Spark model names its columns and their types"
        if "spark" in flavours
        else "save it with MLflow, in a flavour that has a python_function, or as a Spark ML model",
    )


def load_models(spark: SparkSession, pipeline: Pipeline) -> dict[str, Model]:
    """Return the models for the transform, by name. Each model is loaded once.

    Raises:
        DataError: TIDE-MODEL-007, if a model cannot be loaded.
    """
    # Set for executors as well, because their tasks also load MLflow.
    spark.sparkContext.environment.update(_SILENT)
    return {name: _loaded(spark, pipeline, name, model) for name, model in pipeline.models.items()}


def _loaded(spark: SparkSession, pipeline: Pipeline, name: str, model: ResolvedModel) -> Model:
    try:
        if model.flavour == "spark":
            return Model(name, _of_spark(pipeline.layout, pipeline.name, model))
        return Model(name, _of_python(spark, name, model))
    except Exception as error:  # a model's own code can fail in any way
        raise DataError(
            "TIDE-MODEL-007",
            "The model cannot be loaded.",
            facts={
                "pipeline": pipeline.name,
                "model": name,
                "uri": model.uri,
                "version": model.version,
                "reason": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
            },
            fix="install what its requirements.txt names in the drivers' image, in these versions",
        ) from error


@cache
def _of_spark(layout: Layout, pipeline: str, model: ResolvedModel) -> Apply:
    """Load a Spark model from the storage, because the tasks that read it may run on executors."""
    from mlflow.models import Model as MlModel
    from pyspark.ml import PipelineModel

    place = layout.models(pipeline, model.digest)
    data = MlModel.load(model.folder).flavors["spark"]["model_data"]
    put_folder(Store(layout.root), Path(model.folder) / data, place)
    loaded = PipelineModel.load(literal_glob(place))

    def apply(rows: DataFrame, columns: tuple[str, ...]) -> DataFrame:
        if columns:
            raise ValueError("a Spark model takes its columns by itself: leave them out")
        return loaded.transform(rows)

    return apply


@cache
def _of_python(spark: SparkSession, name: str, model: ResolvedModel) -> Apply:
    """Load a Python model, once in each Python worker; MLflow copies the files to executors."""
    from mlflow.models import Model as MlModel
    from mlflow.pyfunc import spark_udf

    function = spark_udf(spark, model.folder, model.result_type, env_manager="local")
    has_signature = MlModel.load(model.folder).signature is not None

    def apply(rows: DataFrame, columns: tuple[str, ...]) -> DataFrame:
        if not columns and not has_signature:
            raise ValueError(f"the model has no signature: name its columns, {name}.predict(rows, 'a', 'b')")
        taken = [F.struct(*columns)] if columns else []
        return rows.withColumn(PREDICTION, function(*taken))

    return apply
