"""docker/versions.env is the one place for versions; whatever else names one must agree."""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
PIN_FILES = sorted(DOCKER.glob("requirements-*.txt"))
POM = {"pom": "http://maven.apache.org/POM/4.0.0"}

# versions.env -> package on the registry
PYTHON_PACKAGES = {
    "AIRFLOW_VERSION": "apache-airflow",
    "CONFLUENT_KAFKA_VERSION": "confluent-kafka",
    "DELTALAKE_VERSION": "deltalake",
    "DELTA_SPARK_VERSION": "delta-spark",
    "FASTAVRO_VERSION": "fastavro",
    "OBSTORE_VERSION": "obstore",
    "PYARROW_VERSION": "pyarrow",
    "PYDANTIC_VERSION": "pydantic",
    "PYSPARK_VERSION": "pyspark",
    "UV_VERSION": "uv",
}

# versions.env -> property of jars.xml
JAR_PROPERTIES = {
    "PYSPARK_VERSION": "spark.version",
    "DELTA_JAR_VERSION": "delta.version",
    "SPARK_AVRO_JAR_VERSION": "spark-avro.version",
    "SPARK_TOKEN_PROVIDER_JAR_VERSION": "spark-token-provider.version",
    "HADOOP_AZURE_JAR_VERSION": "hadoop.version",
    "AWS_SDK_JAR_VERSION": "aws-sdk.version",
    "KAFKA_CLIENTS_JAR_VERSION": "kafka-clients.version",
    "KAFKA_BROKER_JAR_VERSION": "kafka-broker.version",
    "POSTGRES_JAR_VERSION": "postgres.version",
}


def versions() -> dict[str, str]:
    lines = (DOCKER / "versions.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def pins(file: Path) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)", file.read_text(), flags=re.MULTILINE)
    return dict(found)


def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def pom() -> ET.Element:
    return ET.parse(DOCKER / "jars.xml").getroot()


def properties() -> dict[str, str]:
    found = pom().iterfind("pom:properties/*", POM)
    return {element.tag.partition("}")[2]: element.text or "" for element in found}


def jars_of(purpose: str) -> set[str]:
    """Return file names of the jars that jars.xml lists for one purpose."""
    names = set()
    for execution in pom().iterfind(".//pom:execution", POM):
        if execution.findtext("pom:id", namespaces=POM) != purpose:
            continue
        for item in execution.iterfind(".//pom:artifactItem", POM):
            artifact = item.findtext("pom:artifactId", "", POM)
            version = item.findtext("pom:version", "", POM)
            version = re.sub(r"\$\{(.+)\}", lambda match: properties()[match[1]], version)
            names.add(f"{purpose}/{artifact}-{version}.jar")
    return names


@pytest.mark.parametrize("file", PIN_FILES, ids=lambda file: file.stem)
def test_pin_files_hold_the_versions_of_versions_env(file: Path) -> None:
    wanted = {package: versions()[key] for key, package in PYTHON_PACKAGES.items()}
    pinned = {package: version for package, version in pins(file).items() if package in wanted}
    assert pinned == {package: wanted[package] for package in pinned}


def test_every_version_of_versions_env_is_used() -> None:
    images = {"PYTHON_VERSION", "JAVA_VERSION", "POSTGRES_VERSION"}
    assert versions().keys() == images | PYTHON_PACKAGES.keys() | JAR_PROPERTIES.keys()


def test_every_python_version_of_versions_env_is_pinned() -> None:
    dev = pins(DOCKER / "requirements-dev.txt")
    assert {key: dev.get(package) for key, package in PYTHON_PACKAGES.items()} == {
        key: versions()[key] for key in PYTHON_PACKAGES
    }


def test_images_get_the_versions_that_the_tests_ran_with() -> None:
    dev = pins(DOCKER / "requirements-dev.txt")
    for image in ("spark", "airflow", "setup"):
        pinned = pins(DOCKER / f"requirements-{image}.txt")
        assert pinned == {package: dev[package] for package in pinned}


def test_jars_have_the_versions_of_versions_env() -> None:
    found = {key: properties()[name] for key, name in JAR_PROPERTIES.items()}
    assert found == {key: versions()[key] for key in JAR_PROPERTIES}


def test_jar_hashes_are_those_of_the_listed_jars() -> None:
    hashed = {line.split()[1] for line in (DOCKER / "jars.sha256").read_text().splitlines()}
    assert hashed == jars_of("spark") | jars_of("s3a") | jars_of("broker") | jars_of("postgres")


def test_exact_versions_in_pyproject_are_those_of_versions_env() -> None:
    extras = project()["optional-dependencies"]
    named = [requirement for extra in extras.values() for requirement in extra]
    exact = dict(re.findall(r"^([a-z-]+)(?:\[\w+\])?==(\S+)$", "\n".join(named), flags=re.MULTILINE))
    by_package = {package: versions()[key] for key, package in PYTHON_PACKAGES.items()}
    assert exact == {package: by_package[package] for package in ("apache-airflow", "delta-spark", "pyspark")}


def test_every_declared_dependency_is_pinned_with_a_hash() -> None:
    extras = project()["optional-dependencies"].values()
    declared = [*project()["dependencies"], *(name for extra in extras for name in extra)]
    names = {re.split(r"[\[<>=]", requirement)[0].lower() for requirement in declared}
    assert names <= pins(DOCKER / "requirements-dev.txt").keys()


@pytest.mark.parametrize("file", PIN_FILES, ids=lambda file: file.stem)
def test_pin_files_hash_every_package_and_name_no_registry(file: Path) -> None:
    entries = re.split(r"\n(?=[a-z])", file.read_text())
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in file.read_text()


def test_the_oldest_python_of_set_up_is_that_of_the_images() -> None:
    assert project()["requires-python"] == f">={versions()['PYTHON_VERSION']}"
