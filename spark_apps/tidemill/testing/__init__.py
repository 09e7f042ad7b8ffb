"""Test pipelines: hand in rows, run a batch, check the resulting rows, with the engine used in production.

    from tidemill import testing

    def test_a_hot_device_raises_an_alert(tidemill_spark, tmp_path):
        run = testing.pipeline("conf/pipelines/iot_device_windows.yaml", tmp_path, tidemill_spark)
        run.add_rows([...])
        run.advance()
        assert run.table("silver/iot_alerts") == [...]

`tidemill.testing.plugin` has the fixtures. The page for users is README.md, "Test a pipeline".
"""

from __future__ import annotations

from tidemill.testing.broker import Broker, Record
from tidemill.testing.parity import assert_same_result
from tidemill.testing.pipeline_run import PipelineRun, pipeline

__all__ = ["Broker", "PipelineRun", "Record", "assert_same_result", "pipeline"]
