"""A patient with the real state of a windowed query, as a release of Spark has left it; nothing runs here."""

from __future__ import annotations

from pathlib import Path

from tests.support.golden_lakes import STORED, unpack
from tests.support.patient import Patient

NAME = "windowed"
TABLE = f"silver/{NAME}"
DECLARATION = """
description: Windows of readings.
owner: tests
source: {delta: {table: bronze/readings, max_files_per_batch: 1}}
event_time: {column: at, watermark: 10 minutes}
transform: windowed:transform
sinks:
  - delta: {table: silver/windowed}
run: {shuffle_partitions: 2}
"""
# The transform of `golden.py` with which the checkpoint was written.
TRANSFORM = """
from pyspark.sql import functions as F

def transform(readings):
    windows = readings.groupBy(F.window("at", "5 minutes"), "device")
    sums = windows.agg(F.count("*").alias("readings"), F.sum("value").alias("total"))
    return sums.select(F.col("window.start").alias("window_start"), "device", "readings", "total")
"""
# Newest batch of the stored checkpoint; batch N leaves version N + 1 of the state.
LAST = 4


def ran_windowed(patient: Patient, declaration: str = DECLARATION) -> Path:
    """Lay it out in the patient's project; returns the checkpoint."""
    release = max(folder.name for folder in STORED.iterdir())
    checkpoint = unpack(NAME, release, patient.drivers.folder / ".data")
    transforms = patient.drivers.folder / "spark_apps/transforms"
    transforms.mkdir(parents=True)
    (transforms / f"{NAME}.py").write_text(TRANSFORM)
    patient.name = NAME
    patient.values |= {"PIPELINE": NAME, "BATCH": str(LAST - 1)}
    patient.declare(declaration, NAME)
    return checkpoint
