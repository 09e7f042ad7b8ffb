"""Small models, saved with MLflow as a data scientist would; as a program, this module saves LINE again."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pandas as pd

# A linear regression of Spark ML, which says three times the amount; saved by MLflow 3.17.2 with Spark 4.2.0.
LINE = Path(__file__).parents[1] / "data/models/line"


def save_threshold(folder: Path, limit: float) -> Path:
    """Save a scikit-learn decision tree that gives 1 for amounts above the limit, else 0."""
    import mlflow.sklearn
    from mlflow.models import infer_signature
    from sklearn.tree import DecisionTreeClassifier

    rows = pd.DataFrame({"amount": [limit - 1, limit + 1]})
    tree = DecisionTreeClassifier(random_state=0).fit(rows, [0, 1])
    # Ignore MLflow's warnings about integers, which hold no nulls, and about pickles.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = infer_signature(rows, pd.Series(tree.predict(rows)))
        mlflow.sklearn.save_model(
            tree, str(folder), signature=known, pip_requirements=[], serialization_format="cloudpickle"
        )
    return folder


def _save_line() -> None:
    import mlflow.spark
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").getOrCreate()
    known = [(amount, 3 * amount) for amount in (1.0, 2.0, 100.0, 200.0)]
    rows = spark.createDataFrame(known, "amount double, label double").coalesce(1)
    stages = [VectorAssembler(inputCols=["amount"], outputCol="features"), LinearRegression(solver="normal")]
    shutil.rmtree(LINE, ignore_errors=True)
    mlflow.spark.save_model(Pipeline(stages=stages).fit(rows), str(LINE), pip_requirements=[])
    spark.stop()


if __name__ == "__main__":
    _save_line()
