"""Entry points of the images, run by the real shell; the programs that they exec print their arguments."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPARK = ROOT / "docker" / "spark" / "entrypoint"
POSTGRES = ROOT / "docker" / "evaluation" / "postgres" / "entrypoint"

# Prints its arguments, one per line.
TELLER = '#!/bin/sh\nprintf "%s\\n" "$@"\n'

# Variables that Spark 4.2 sets in the pod of an executor (BasicExecutorFeatureStep).
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
    "SPARK_EXECUTOR_POD_NAME": "exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


@pytest.fixture
def image(tmp_path: Path) -> dict[str, str]:
    """Return the variables of an image whose java and python print their arguments."""
    for name in ("java", "python"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(TELLER)
        program.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "JAVA_HOME": str(tmp_path),
        "SPARK_HOME": "/spark",
        "TIDEMILL_JARS": "/jars",
    }


def told(script: Path, *arguments: str, variables: dict[str, str]) -> list[str]:
    command = ["bash", str(script), *arguments]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_driver_hands_its_arguments_on(image: dict[str, str]) -> None:
    arguments = ["--pipeline", "a", "--input", "a b"]
    assert told(SPARK, "driver", *arguments, variables=image) == ["-m", "tidemill.engine.driver", *arguments]


def test_executor_starts_the_backend_with_what_spark_set(image: dict[str, str]) -> None:
    assert told(SPARK, "executor", variables=image | EXECUTOR) == [
        "-XX:SharedArchiveFile=/opt/tidemill/spark.jsa",
        "-Xms1024m",
        "-Xmx1024m",
        "-cp",
        "/jars/spark/*:/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "spark://CoarseGrainedScheduler@10.0.0.7:7078"),
        *("--executor-id", "3"),
        *("--cores", "2"),
        *("--app-id", "spark-1"),
        *("--hostname", "10.0.0.8"),
        *("--resourceProfileId", "0"),
        *("--podName", "exec-3"),
    ]


def test_executor_has_the_class_path_of_its_driver(image: dict[str, str]) -> None:
    answer = told(
        SPARK, "executor", variables=image | EXECUTOR | {"SPARK_CLASSPATH": "/jars/a.jar:/jars/b.jar"}
    )
    assert answer[answer.index("-cp") + 1] == "/jars/a.jar:/jars/b.jar:/spark/jars/*"


def test_java_options_keep_their_order_and_their_spaces(image: dict[str, str]) -> None:
    options = [f"-Doption{number}=a b*" for number in range(12)]
    named = {f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(options)}
    assert told(SPARK, "executor", variables=image | EXECUTOR | named)[1:13] == options


def test_an_executor_that_spark_did_not_set_up_does_not_start(image: dict[str, str]) -> None:
    done = subprocess.run(["bash", SPARK, "executor"], env=image, capture_output=True, check=False)
    assert done.returncode != 0
    assert done.stdout == b""


def test_any_other_command_is_run_as_it_is(image: dict[str, str]) -> None:
    assert told(SPARK, "printf", "%s\\n", "a b", variables=image) == ["a b"]


@pytest.mark.parametrize("password", [{}, {"POSTGRES_PASSWORD": "a\nb"}], ids=["none", "two lines"])
def test_a_database_without_a_password_does_not_come_to_be(password: dict[str, str]) -> None:
    variables = {"PATH": os.environ["PATH"], **password}
    done = subprocess.run(["bash", POSTGRES], env=variables, capture_output=True, check=False)
    assert done.returncode == 64
