"""Windows of readings, and their alerts; the page of tidemill.testing shows these tests."""

from tidemill import testing

WINDOWS = "conf/pipelines/iot_device_windows.yaml"


def reading(minute, temperature=20.0):
    return {
        "event_id": f"e{minute}",
        "device_id": "boiler",
        "temperature": temperature,
        "humidity": 40.0,
        "timestamp": f"2026-01-01T00:{minute:02}:00Z",
    }


def test_a_hot_window_is_an_alert_once_it_is_over(tidemill_spark, tmp_path):
    run = testing.pipeline(WINDOWS, tmp_path, tidemill_spark)
    run.add_rows([reading(0, 150.0), reading(20)])
    run.add_payloads([b"not JSON"])
    run.advance()
    assert [row["avg_temp"] for row in run.table("silver/iot_alerts")] == [150.0]
    assert [row["avg_temp"] for row in run.sent("topic iot_alerts")] == [150.0]
    assert [row["reason"] for row in run.quarantine()] == ["malformed_json"]


def test_alerts_reach_the_topic(tidemill_spark, tidemill_broker, tmp_path):
    run = testing.pipeline(WINDOWS, tmp_path, tidemill_spark, tidemill_broker)
    run.add_rows([reading(0, 150.0), reading(20)])
    run.advance()
    assert [record.key for record in tidemill_broker.read(run.topic_of("iot_alerts"))] == [b"boiler"]


def test_windows_are_the_same_however_readings_come(tidemill_spark, tmp_path):
    rows = [reading(minute) for minute in (0, 3, 1, 12, 8, 25)]
    beside = {"with_crashes": True, "with_backfill": True}
    testing.assert_same_result(WINDOWS, rows, tmp_path, tidemill_spark, splits=1, **beside)
