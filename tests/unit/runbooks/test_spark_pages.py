"""The page about parts of an operation that need Spark; here there is none that starts."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from tests.support.patient import Patient
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Story, Told, each_story
from tidemill.checkpoint.epochs import newest_epoch
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.reading.state_folder import read_state_folder

RELEASE = "tidemill checkpoint release PIPELINE"
GIVE_UP = f"{RELEASE} REQUEST --force --reason TEXT --apply"
REWIND = ("checkpoint", "rewind", "orders", "--to", "1", "--reason", "x", "--apply")


def only_spark_restores_its_table(patient: Patient) -> None:
    """Change the table's features to those of a clustered table."""
    patient.ran(3)
    first = patient.table() / "_delta_log" / f"{0:020}.json"
    features = '"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["clustering","domainMetadata"]'
    plain = '"minReaderVersion":1,"minWriterVersion":2'
    assert plain in first.read_text()
    first.write_text(first.read_text().replace(plain, features))


def java_is_not_found(patient: Patient) -> None:
    """Run a rewind whose part cannot start Spark."""
    only_spark_restores_its_table(patient)
    with patient.patch.context() as without_java:
        without_java.setenv("JAVA_HOME", "/nowhere")
        assert patient.tidemill(*REWIND) == 1
    assert "TIDE-CKPT-077" in patient.tidemill.err
    assert "JAVA" in patient.tidemill.err
    (held,) = patient.tidemill.json("checkpoint", "release", "orders")
    patient.values["REQUEST"] = held["id"]


STORIES = [
    Story(
        "spark-part-failed",
        "Java is not found, and the request is given up",
        java_is_not_found,
        (),
        [RELEASE, GIVE_UP],
        by_hand=("TIDE-CKPT-077",),
        goes_on=False,
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()


def test_without_spark_a_verb_is_refused_before_anything_is_held(patient: Patient) -> None:
    only_spark_restores_its_table(patient)
    store, layout = patient.plane.store, patient.plane.layout
    epoch = newest_epoch(store, layout, "orders")
    real: Callable[[str], object] = importlib.util.find_spec
    with patient.patch.context() as without_spark:
        without_spark.setattr(
            importlib.util, "find_spec", lambda name: None if name == "pyspark" else real(name)
        )
        assert patient.tidemill(*REWIND) == 1
    assert "TIDE-CTRL-030" in patient.tidemill.err
    folder = read_state_folder(store, layout, "orders")
    assert folder is not None
    assert (read_holds(store, layout, "orders"), folder.unfinished, len(folder.generations)) == ([], (), 1)
    assert newest_epoch(store, layout, "orders") == epoch
