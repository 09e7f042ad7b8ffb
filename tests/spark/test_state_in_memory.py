"""State in memory, `run.state_store: memory`: born with Spark's other store, rewound, and replayed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import declare, land_events, mend, newest_batch, rewind, rows_of, spoil
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.session_conf import state_conf
from tidemill.errors import GateRefusedError
from tidemill.spec.state_store import PROVIDER_SETTING, PROVIDERS

KIND = "windows"


@pytest.fixture
def _session_in_memory(lake: Lake) -> Iterator[None]:
    """Yield the shared session as a driver of such a pipeline sets it."""
    conf = lake.spark.conf
    before = {name: str(conf.get(name)) for name in state_conf("memory")}
    for name, value in state_conf("memory").items():
        conf.set(name, value)
    yield
    for name, value in before.items():
        conf.set(name, value)


def in_memory(lake: Lake, name: str, files: int) -> LakePipeline:
    pipeline = declare(lake, name, KIND, files)
    file = lake.folder / f"conf/pipelines/{name}.yaml"
    document = yaml.safe_load(file.read_text())
    document["run"]["state_store"] = "memory"
    file.write_text(yaml.safe_dump(document))
    return pipeline


@pytest.mark.soak
@pytest.mark.usefixtures("_session_in_memory")
def test_state_in_memory_is_stored_rewound_and_kept_to(lake: Lake) -> None:
    land_events(lake, 0, 4)
    pipeline = in_memory(lake, KIND, files=4)
    state = pipeline.measured_by(pipeline.run_incremental()).state
    assert state is not None
    assert state.rows > 0 < state.bytes
    good = newest_batch(pipeline)
    offsets = CheckpointBatches(lake.store, str(pipeline.checkpoint)).offsets(good)
    assert offsets is not None
    assert offsets.conf[PROVIDER_SETTING] == PROVIDERS["memory"]
    assert list(pipeline.checkpoint.glob("state/*/*/*.delta"))
    spoil(pipeline, KIND)
    land_events(lake, 4, 8)
    pipeline.run_incremental()
    spoiled = set(rows_of(pipeline))
    rewind(pipeline, good)
    mend(pipeline, KIND)

    with pytest.raises(GateRefusedError) as refused:
        declare(lake, KIND, KIND, files=3).run_incremental()
    assert refused.value.error_id == "TIDE-CKPT-097"
    assert (refused.value.facts["checkpoint_store"], refused.value.facts["pipeline_store"]) == (
        "memory",
        "rocksdb",
    )

    # Other batches than before, as few as can be.
    replayed = in_memory(lake, KIND, files=8)
    replayed.run_incremental()
    control = in_memory(lake, "control", files=8)
    control.run_incremental()
    assert rows_of(replayed) == rows_of(control)
    assert spoiled - set(rows_of(control))
