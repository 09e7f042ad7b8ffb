"""Small models, saved by MLflow as a data scientist saves them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

AMOUNTS = [1.0, 2.0, 100.0, 200.0]


def save_threshold(folder: Path, limit: float, *, signature: bool = True) -> Path:
    """A decision tree of scikit-learn: 1 for amounts above the limit, else 0."""
    import mlflow.sklearn
    from mlflow.models import infer_signature
    from sklearn.tree import DecisionTreeClassifier

    rows = pd.DataFrame({"amount": [limit - 1, limit + 1]})
    tree = DecisionTreeClassifier(random_state=0).fit(rows, [0, 1])
    # What it says of integers, which hold no nulls, and of pickles is not for tests.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = infer_signature(rows, pd.Series(tree.predict(rows))) if signature else None
        mlflow.sklearn.save_model(
            tree, str(folder), signature=known, pip_requirements=[], serialization_format="cloudpickle"
        )
    return folder


def save_line(spark: SparkSession, folder: Path, factor: float) -> Path:
    """A linear regression of Spark ML: the amount times a factor."""
    import mlflow.spark
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression

    known = spark.createDataFrame(
        [(amount, amount * factor) for amount in AMOUNTS], "amount double, label double"
    )
    stages = [VectorAssembler(inputCols=["amount"], outputCol="features"), LinearRegression(solver="normal")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow.spark.save_model(
            Pipeline(stages=stages).fit(known.coalesce(1)), str(folder), pip_requirements=[]
        )
    return folder
