"""The images: the promises of their files, and the inputs of a build from this machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from build_images import Request, build_command, engine_version, find_builder, read_request, versions
from image_context import IMAGES, PROJECT_FILES, Image, copy_jars, copy_project
from set_up import DOCKER, ROOT, SetupError, pinned_jars

from tidemill import __version__
from tidemill.dev.broker_config import SINGLE_NODE_PROPERTIES
from tidemill.spec.text import AVRO_FILE_PATTERN, PROTOBUF_FILE_PATTERN, SCHEMA_FILE_PATTERN

# Spark and Airflow keep what a project brings apart; the evaluation images have no project.
PROJECT_IMAGES = [image for image in IMAGES if image.name in ("spark", "airflow")]


def dockerfile(image: Image) -> str:
    return (DOCKER / image.folder / "Dockerfile").read_text()


def instructions(image: Image) -> list[str]:
    """Return the Dockerfile's instructions, each on one line, without comments."""
    lines = [line for line in dockerfile(image).splitlines() if line and not line.startswith("#")]
    return "\n".join(lines).replace("\\\n", "").splitlines()


def stages(image: Image) -> dict[str, list[str]]:
    """Return the instructions of each named stage."""
    found: dict[str, list[str]] = {}
    for line in instructions(image):
        if line.startswith("FROM "):
            name = line.split()[-1] if " AS " in line else "last"
        elif not line.startswith("ARG BASE"):
            found.setdefault(name, []).append(line)
    return found


def last_stage(image: Image) -> list[str]:
    found = instructions(image)
    start = max(number for number, line in enumerate(found) if line.startswith("FROM "))
    return found[start:]


every_image = pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
every_project_image = pytest.mark.parametrize("image", PROJECT_IMAGES, ids=lambda image: image.name)


@every_image
def test_an_image_runs_as_our_user_under_tini(image: Image) -> None:
    stage = last_stage(image)
    assert [line for line in stage if line.startswith("USER ")] == ["USER 10001:10001"]
    entry = next(line for line in stage if line.startswith("ENTRYPOINT "))
    assert entry.startswith('ENTRYPOINT ["/usr/bin/tini", "--"')


@every_image
def test_nothing_but_root_may_change_the_files_of_an_image(image: Image) -> None:
    assert [line for line in last_stage(image) if line.startswith("COPY ") and "--chown" in line] == []


@every_image
def test_an_image_stands_on_the_base_alone(image: Image) -> None:
    found = instructions(image)
    stages = {line.split()[-1] for line in found if re.fullmatch(r"FROM \S+ AS \S+", line)}
    bases = {line.split()[1] for line in found if line.startswith("FROM ")}
    assert bases - stages == {"${BASE}"}
    assert found[0] == "ARG BASE=docker.io/library/debian:bookworm-slim"


@every_image
def test_versions_in_an_image_come_from_versions_env(image: Image) -> None:
    text = "\n".join(instructions(image))
    assert set(re.findall(r"\$\{(\w+_VERSION)\}", text)) <= versions().keys()
    assert re.findall(r"python3\.\d|openjdk-\d|postgresql-\d|==\d", text) == []


@every_image
def test_a_build_names_no_registry_of_packages(image: Image) -> None:
    files = [path for path in (DOCKER / image.folder).iterdir() if path.is_file()]
    assert [
        path.name for path in files if re.search(r"https?://|index-url|trusted-host", path.read_text())
    ] == []


@every_image
def test_a_build_is_told_every_argument_of_its_dockerfile(image: Image) -> None:
    told = {"BASE": "somewhere/debian:1", **versions()}
    request = read_request(["--base", told["BASE"], "--repository", "here", "--tag", "7"], {})
    command = build_command(find_builder({"IMAGE_BUILDER": "docker"}), request, image, DOCKER / image.folder)
    wanted = dict.fromkeys(re.findall(r"^ARG (\w+)", dockerfile(image), flags=re.MULTILINE))
    assert [part for part in command if part.startswith("--build-arg")] == [
        f"--build-arg={name}={told[name]}" for name in wanted
    ]
    assert command[-3:] == ["--tag", f"here/{image.name}:7", str(DOCKER / image.folder)]


@every_project_image
def test_a_changed_pipeline_costs_the_last_layer_only(image: Image) -> None:
    copies = [line.split()[-1] for line in last_stage(image) if line.startswith(("COPY ", "RUN "))]
    assert copies[-2:] == ["/", "/opt/tidemill/project/"]  # engine, then project
    assert copies.index("/opt/tidemill/venv/") < len(copies) - 2


@every_project_image
def test_python_packages_are_compared_with_their_hashes(image: Image) -> None:
    installs = [line for line in instructions(image) if "pip install" in line]
    wheels = [line for line in installs if "--no-deps --no-index" in line]
    packages = [line for line in installs if line not in wheels]
    assert len(wheels) == 1
    assert [line.count("--require-hashes") for line in packages] == [
        line.count("pip install") for line in packages
    ]


@pytest.mark.parametrize(
    ("stage", "names"),
    [
        ("system", ("spark", "airflow", "evaluation-kafka")),
        ("tools", ("spark", "airflow")),
        ("engine", ("spark", "airflow")),
        ("java", ("spark", "evaluation-kafka")),
    ],
)
def test_images_share_the_layers_of(stage: str, names: tuple[str, ...]) -> None:
    first, *others = [stages(image)[stage] for image in IMAGES if image.name in names]
    assert others == [first] * (len(names) - 1)


def test_jars_are_compared_with_their_pins_in_the_build(tmp_path: Path) -> None:
    copy_jars(tmp_path, ("spark", "s3a"))
    sums = dict(reversed(line.split()) for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    pinned = {name: digest for name, digest in pinned_jars().items() if name.startswith(("spark/", "s3a/"))}
    assert {name: sums[name] for name in pinned} == pinned
    assert sums.keys() - pinned.keys() == {"spark/tidemill-jvm.jar"}
    assert sums.keys() == {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*.jar")}


def test_a_jar_that_is_not_the_pinned_one_fails_the_build(tmp_path: Path) -> None:
    copy_jars(tmp_path, ("spark",))
    check = next(line for line in instructions(IMAGES[0]) if "sha256sum" in line)
    command = check.removeprefix("RUN ").replace("/opt/tidemill/jars", str(tmp_path))
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0
    with (tmp_path / "spark" / "tidemill-jvm.jar").open("ab") as jar:
        jar.write(b"x")
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode != 0


def test_a_project_brings_its_own_files_and_nothing_that_lies_beside_them(tmp_path: Path) -> None:
    project = tmp_path / "project"
    brought = (
        "conf/pipelines/a.yaml",
        "conf/schemas/a.json",
        "spark_apps/transforms/a.py",
        "dags/streams.py",
    )
    stray = (
        ".git/config",
        ".env",
        "conf/.env.yaml",
        "conf/environments/key.pem",
        "conf/environments/password",
        "spark_apps/transforms/__pycache__/a.pyc",
        "spark_apps/other/b.py",
        "dags/tidemill_airflow/__init__.py",
        "dags/core.1234",
    )
    for name in brought + stray:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    (project / "conf" / "outside.yaml").symlink_to("/etc/passwd")
    copy_project(project, tmp_path / "context")
    found = {path for path in (tmp_path / "context").rglob("*") if path.is_file()}
    assert {path.relative_to(tmp_path / "context").as_posix() for path in found} == set(brought)


def test_every_kind_of_schema_file_is_brought_along() -> None:
    patterns = (SCHEMA_FILE_PATTERN, AVRO_FILE_PATTERN, PROTOBUF_FILE_PATTERN)
    named = {f"a{suffix}" for suffix in PROJECT_FILES}
    assert all(any(re.search(pattern, name) for name in named) for pattern in patterns)


def test_a_project_without_dag_files_gets_those_of_tidemill(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "conf" / "pipelines").mkdir(parents=True)
    copy_project(project, tmp_path / "context")
    ours = {path.name for path in (ROOT / "dags").glob("*.py")}
    assert {path.name for path in (tmp_path / "context" / "dags").glob("*.py")} == ours


def test_a_folder_that_is_no_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError):
        copy_project(tmp_path, tmp_path / "context")


def test_the_broker_for_trying_out_has_the_settings_of_the_tests(tmp_path: Path) -> None:
    kafka = next(image for image in IMAGES if image.name == "evaluation-kafka")
    kafka.make_context(tmp_path / "context", ROOT)
    lines = (tmp_path / "context" / "server.properties").read_text().splitlines()
    assert dict(line.split("=", 1) for line in lines) == {
        name: str(value) for name, value in SINGLE_NODE_PROPERTIES.items()
    }


def names_of(request: Request) -> list[str]:
    return [request.name_of(image) for image in request.images]


def test_images_have_the_names_that_the_chart_expects() -> None:
    assert engine_version() == __version__
    assert names_of(read_request([], {})) == [
        f"docker.io/tidemill/{name}:{__version__}"
        for name in ("spark", "airflow", "evaluation-kafka", "evaluation-postgres")
    ]


def test_what_the_command_line_says_wins_over_variables() -> None:
    variables = {"REPOSITORY": "one", "TAG": "1", "IMAGES": "airflow", "IMAGE_LOAD": "kind load docker-image"}
    assert names_of(read_request([], variables)) == ["one/airflow:1"]
    assert read_request([], variables).load == ("kind", "load", "docker-image")
    arguments = ["spark", "--repository", "two", "--tag", "2", "--load", ""]
    assert names_of(read_request(arguments, variables)) == ["two/spark:2"]
    assert read_request(arguments, variables).load == ()


def test_an_unknown_image_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_request(["sparc"], {})
    assert ended.value.code == 2
    assert "evaluation-postgres" in capsys.readouterr().err


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder of PATH, which is empty."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_docker_builds_where_its_daemon_answers(programs: Path) -> None:
    write_program(programs / "buildah", "exit 0")
    write_program(programs / "docker", "exit 0")
    assert find_builder({}).program == ("docker",)


def test_buildah_builds_where_no_docker_daemon_answers(programs: Path) -> None:
    write_program(programs / "buildah", "exit 0")
    write_program(programs / "docker", "exit 1")
    builder = find_builder({})
    assert builder.program == ("buildah", "--storage-driver", "vfs")
    assert builder.build == ("build", "--layers", "--isolation", "chroot")


def test_settings_of_buildah_are_left_to_who_made_them(programs: Path) -> None:
    write_program(programs / "buildah", "exit 0")
    builder = find_builder({"STORAGE_DRIVER": "overlay", "BUILDAH_ISOLATION": "oci"})
    assert (builder.program, builder.build) == (("buildah",), ("build", "--layers"))


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("variables", [{}, {"IMAGE_BUILDER": "kaniko"}])
def test_without_a_builder_set_up_says_what_to_install(variables: dict[str, str]) -> None:
    with pytest.raises(SetupError):
        find_builder(variables)
