"""Builds the container images with docker or buildah (`make images`).

    docker/build_images.py                          all images
    docker/build_images.py spark airflow            some of them
    docker/build_images.py --load 'kind load docker-image'      and hand each one to a cluster

Variables, which make hands on: REPOSITORY, TAG, BASE, PROJECT, IMAGES, IMAGE_LOAD, IMAGE_BUILDER.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from image_context import CONTEXTS, IMAGES, Image, wheel_step
from set_up import DOCKER, ROOT, SetupError, all_steps, set_up

REPOSITORY = "docker.io/tidemill"
BASE = "docker.io/library/debian:bookworm-slim"


@dataclass(frozen=True)
class Builder:
    """A program that builds images.

    Args:
        program: The program with the options that every call needs.
        build: The subcommand that builds, with its options.
    """

    program: tuple[str, ...]
    build: tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """The images to build, their project and their names."""

    images: tuple[Image, ...]
    project: Path
    repository: str
    tag: str
    base: str
    load: tuple[str, ...]

    def name_of(self, image: Image) -> str:
        """The image's full name."""
        return f"{self.repository}/{image.name}:{self.tag}"


def main(arguments: Sequence[str], variables: Mapping[str, str] = os.environ) -> int:
    """Build the requested images, and report errors without a traceback."""
    try:
        request = read_request(arguments, variables)
        builder = find_builder(variables)
        set_up([*all_steps(), wheel_step()])
        for image in request.images:
            make_image(builder, request, image)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def read_request(arguments: Sequence[str], variables: Mapping[str, str]) -> Request:
    """Return the request from the command line, then make's variables, then the chart's defaults."""
    names = [image.name for image in IMAGES]
    parser = argparse.ArgumentParser(prog="docker/build_images.py", description="Builds the images.")
    parser.add_argument("images", nargs="*", metavar="IMAGE", help=f"some of: {', '.join(names)}")
    parser.add_argument("--repository", default=variables.get("REPOSITORY") or REPOSITORY)
    parser.add_argument(
        "--tag", default=variables.get("TAG") or engine_version(), help="default: %(default)s"
    )
    parser.add_argument("--base", default=variables.get("BASE") or BASE, help="default: %(default)s")
    parser.add_argument("--project", type=Path, default=Path(variables.get("PROJECT") or ROOT))
    parser.add_argument(
        "--load", default=variables.get("IMAGE_LOAD", ""), help="command that takes an image's name"
    )
    read = parser.parse_args(arguments)
    wanted = read.images or variables.get("IMAGES", "").split() or names
    if unknown := set(wanted) - set(names):
        parser.error(f"no such image: {', '.join(sorted(unknown))} (there are {', '.join(names)})")
    return Request(
        images=tuple(image for image in IMAGES if image.name in wanted),
        project=read.project.resolve(),
        repository=read.repository,
        tag=read.tag,
        base=read.base,
        load=tuple(shlex.split(read.load)),
    )


def engine_version() -> str:
    """The version of the engine, which is the images' tag."""
    text = (ROOT / "spark_apps" / "tidemill" / "__init__.py").read_text()
    return str(re.findall(r'^__version__ = "(.+)"$', text, flags=re.MULTILINE)[0])


def find_builder(variables: Mapping[str, str]) -> Builder:
    """The one that IMAGE_BUILDER names; else docker, if its daemon answers; else buildah.

    Raises:
        SetupError: if there is none.
    """
    named = variables.get("IMAGE_BUILDER", "")
    if named not in ("", "docker", "buildah"):
        raise SetupError(f"IMAGE_BUILDER is `{named}`; it may be docker or buildah.")
    if named == "docker" or (not named and docker_answers()):
        return Builder(("docker",), ("build",))
    if shutil.which("buildah"):
        # Neither option needs a privilege or a kernel module, so both work in CI and in containers.
        store = () if "STORAGE_DRIVER" in variables else ("--storage-driver", "vfs")
        isolation = () if "BUILDAH_ISOLATION" in variables else ("--isolation", "chroot")
        return Builder(("buildah", *store), ("build", "--layers", *isolation))
    raise SetupError(
        "Neither a docker daemon nor buildah is here. To install one: sudo apt-get install buildah "
        "(macOS: brew install --cask docker)"
    )


def docker_answers() -> bool:
    """Return True if docker is installed and its daemon answers."""
    try:
        return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def make_image(builder: Builder, request: Request, image: Image) -> None:
    """Build one image, print its size and the seconds, and hand it to the cluster if that was asked for."""
    name = request.name_of(image)
    context = CONTEXTS / image.name
    earlier = of_image(builder, name, "{{.ID}}")
    print(f"image {name}", flush=True)
    begin = time.monotonic()
    image.make_context(context, request.project)
    call(*build_command(builder, request, image, context))
    seconds = time.monotonic() - begin
    print(f"image {name}: {of_image(builder, name, '{{.Size}}')}, {seconds:.0f} s", flush=True)
    if earlier and earlier != of_image(builder, name, "{{.ID}}"):
        # What it does not share with the new one would fill the disk, build by build. It may be in use.
        subprocess.run([*builder.program, "rmi", earlier], capture_output=True, check=False)
    if request.load:
        call(*request.load, name)


def call(*command: str) -> None:
    """Run a command here, its output going to the terminal.

    Raises:
        SetupError: if it fails.
    """
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise SetupError(f"No image: `{shlex.join(command)}` failed, see above.")


def build_command(builder: Builder, request: Request, image: Image, context: Path) -> list[str]:
    """The command that builds one image from its context."""
    declared = re.findall(r"^ARG (\w+)", (context / "Dockerfile").read_text(), flags=re.MULTILINE)
    known = {"BASE": request.base, **versions()}
    arguments = [f"--build-arg={key}={known[key]}" for key in dict.fromkeys(declared)]
    return [*builder.program, *builder.build, *arguments, "--tag", request.name_of(image), str(context)]


def versions() -> dict[str, str]:
    """Return the versions in docker/versions.env."""
    lines = (DOCKER / "versions.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def of_image(builder: Builder, name: str, field: str) -> str:
    """Return a field of an image, such as `{{.Size}}`, from the builder's store; empty without the image."""
    command = [*builder.program, "images", "--format", field, name]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
