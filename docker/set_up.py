"""Set up a checkout: the virtual environment, the jars, and the few lines of Java.

Each step is skipped while its inputs have the same content as when the step last ran. So a second run takes a
moment and needs no network. This program uses only Python's standard library.

    docker/setup.sh               install what is missing
    docker/setup.sh --tests       also install what makes tests faster
    docker/setup.sh --pin-jars    resolve docker/jars.xml again and write docker/jars.sha256
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docker"
DEV_PINS = DOCKER / "requirements-dev.txt"
VENV = ROOT / ".venv"
JARS = ROOT / ".cache" / "jars"
JAR_HASHES = DOCKER / "jars.sha256"
JVM_SOURCES = ROOT / "spark_apps" / "jvm" / "src" / "main" / "java"
JVM_JAR = JARS / "spark" / "tidemill-jvm.jar"
CLASS_ARCHIVE = ROOT / ".cache" / "spark.jsa"

# What packages are built with that come without a wheel for this machine. It has to be there first: without
# cffi setuptools builds python-qpid-proton without its C part, and says nothing.
BUILD_TOOLS = ("cffi",)

# The versions that Spark 4.2 supports.
JAVA_VERSIONS = (17, 21)

# Time stamp of every entry of our jar: the first that zip can hold, so equal sources give equal jars.
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)

INSTALL = {
    "java": ("Java 17 or 21", "openjdk-17-jdk-headless", "openjdk@17"),
    "javac": ("A Java compiler (javac)", "openjdk-17-jdk-headless", "openjdk@17"),
    "cc": ("A C compiler (cc)", "gcc", "gcc"),
    "mvn": ("Maven (mvn)", "maven", "maven"),
    "make": ("make", "make", "make"),
    "node": ("Node.js 20 or later", "nodejs", "node"),
    "npm": ("npm", "npm", "node"),
    "go": ("Go 1.25 or later", "golang-go", "go"),
    "git": ("git", "git", "git"),
    "venv": ("Python's venv module", "python3-venv", "python@3.11"),
}


class SetupError(Exception):
    """An error that ends the set-up; its message is one line for the user of `make`."""


@dataclass(frozen=True)
class Step:
    """One thing that set-up makes, and when it has to be made again."""

    title: str
    stamp: Path
    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    tools: tuple[str, ...]
    make: Callable[[], None]

    def is_done(self) -> bool:
        """Return True if the outputs exist and were made from these inputs."""
        fresh = self.stamp.is_file() and self.stamp.read_text() == self.fingerprint()
        return fresh and all(path.exists() for path in self.outputs)

    def fingerprint(self) -> str:
        """Digest of the inputs' names and contents, and of the Python that runs this."""
        digest = hashlib.sha256(f"{sys.version_info[:2]} {ROOT}".encode())
        for path in self.inputs:
            digest.update(f"{path.relative_to(ROOT)} {sha256(path)}\n".encode())
        return digest.hexdigest()

    def run(self) -> None:
        """Make the outputs. A step that fails half-way has no stamp and runs again."""
        print(f"set-up: {self.title}", flush=True)
        self.stamp.unlink(missing_ok=True)
        self.make()
        self.stamp.parent.mkdir(parents=True, exist_ok=True)
        self.stamp.write_text(self.fingerprint())


def main(arguments: list[str]) -> int:
    """Run the requested steps, and report errors without a traceback."""
    try:
        if arguments == ["--pin-jars"]:
            pin_jars()
        else:
            set_up(all_steps())
            if "--tests" in arguments:
                set_up([class_archive()])
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def set_up(wanted: Iterable[Step]) -> None:
    """Run the steps that are not done, after a look at all the tools that they need."""
    steps = [step for step in wanted if not step.is_done()]
    require_tools(["java", "make", "git", *(tool for step in steps for tool in step.tools)])
    for step in steps:
        step.run()


def all_steps() -> list[Step]:
    """Environment, jars, Java; each needs the one before."""
    stamps = ROOT / ".cache" / "stamps"
    pins = (DOCKER / "requirements-setup.txt", DEV_PINS)
    sources = tuple(sorted(JVM_SOURCES.rglob("*.java")))
    jars = tuple(JARS / name for name in pinned_jars())
    return [
        Step(
            title="Python packages into .venv",
            # The stamp is inside .venv, so deleting the folder makes a new environment.
            stamp=VENV / "tidemill-set-up",
            inputs=(*pins, ROOT / "pyproject.toml"),
            outputs=(VENV / "bin" / "python", VENV / "bin" / "tidemill"),
            tools=("venv", "cc"),
            make=make_environment,
        ),
        Step(
            title="jars into .cache/jars",
            stamp=stamps / "jars",
            inputs=(DOCKER / "jars.xml", JAR_HASHES),
            outputs=jars,
            tools=("mvn",),
            make=make_jars,
        ),
        Step(
            title="spark_apps/jvm into tidemill-jvm.jar",
            stamp=stamps / "jvm",
            inputs=(*sources, JAR_HASHES, DOCKER / "versions.env"),
            outputs=(JVM_JAR,),
            tools=("javac",),
            make=make_jvm_jar,
        ),
    ]


def class_archive() -> Step:
    """A Spark that starts with it needs a quarter less time; half a minute to make."""
    program = DOCKER / "spark" / "class_archive.py"
    return Step(
        title="Spark's classes into .cache/spark.jsa, for tests",
        stamp=ROOT / ".cache" / "stamps" / "class-archive",
        # The JVM compares paths and times of all jars with the archive's.
        inputs=(program, JVM_JAR, VENV / "tidemill-set-up"),
        outputs=(CLASS_ARCHIVE,),
        tools=(),
        make=lambda: make_class_archive(program),
    )


def make_class_archive(program: Path) -> None:
    """Have a JVM write down what it loads in a small stream; what Spark prints is of no use here."""
    CLASS_ARCHIVE.unlink(missing_ok=True)
    variables = {**os.environ, "TIDEMILL_JARS": str(JARS)}
    command = [VENV / "bin" / "python", program, CLASS_ARCHIVE]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(f"Set-up stopped: {program.name} failed.\n{done.stderr}")


def make_environment() -> None:
    """Install the pinned packages, each with its hash, then the project itself as it lies here."""
    python = VENV / "bin" / "python"
    if not runs_this_python(python):
        run(sys.executable, "-m", "venv", "--clear", VENV)
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--require-hashes", "-r", DOCKER / "requirements-setup.txt")
    # No build isolation: it would fetch build tools that no pin file names.
    uv = VENV / "bin" / "uv"
    into = ("--quiet", "--python", python, "--no-build-isolation")
    hashed = ("--require-hashes", "--constraints", DEV_PINS)
    run(uv, "pip", "install", *into, *hashed, *map(pinned, BUILD_TOOLS))
    run(uv, "pip", "sync", *into, "--require-hashes", DEV_PINS)
    run(uv, "pip", "install", *into, "--no-deps", "--editable", ROOT)


def pinned(package: str) -> str:
    """A package as it is pinned, e.g. `cffi==2.1.1`."""
    pins = DEV_PINS.read_text().splitlines()
    return next(line.split()[0] for line in pins if line.startswith(f"{package}=="))


def runs_this_python(python: Path) -> bool:
    """Return True if the environment exists and has the same Python version as this process."""
    version = "import sys; print(sys.version_info[:2])"
    try:
        found = subprocess.run([python, "-c", version], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return False
    return found.strip() == str(sys.version_info[:2])


def make_jars() -> None:
    """Copy the jars that are missing and compare each with its pinned hash."""
    pinned = pinned_jars()
    if any(not is_pinned(name, digest) for name, digest in pinned.items()):
        copy_jars(JARS)
    wrong = [name for name, digest in pinned.items() if not is_pinned(name, digest)]
    if wrong:
        raise SetupError(f"These jars are not what docker/jars.sha256 pins: {', '.join(wrong)}")
    for jar in JARS.glob("*/*.jar"):
        if jar != JVM_JAR and jar.relative_to(JARS).as_posix() not in pinned:
            jar.unlink()  # from an earlier jars.xml; it would be on the class path


def copy_jars(folder: Path) -> None:
    """Copy the jars in docker/jars.xml to `folder`; Maven takes cached jars from its cache."""
    goals = (
        "dependency:copy@spark",
        "dependency:copy@s3a",
        "dependency:copy@broker",
        "dependency:copy@postgres",
    )
    options = ("-q", "-B", f"-Djars={folder}")
    run("mvn", *options, "-f", DOCKER / "jars.xml", *goals)


def pin_jars() -> None:
    """Write the hashes of the jars that docker/jars.xml lists now."""
    require_tools(["java", "mvn"])
    folder = ROOT / ".cache" / "pinning"
    shutil.rmtree(folder, ignore_errors=True)
    copy_jars(folder)
    jars = sorted(folder.glob("*/*.jar"))
    JAR_HASHES.write_text("".join(f"{sha256(jar)}  {jar.relative_to(folder).as_posix()}\n" for jar in jars))
    shutil.rmtree(folder)


def pinned_jars() -> dict[str, str]:
    """Digest of each jar by its place below .cache/jars, such as `spark/delta-storage-4.4.0.jar`."""
    lines = JAR_HASHES.read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def is_pinned(name: str, digest: str) -> bool:
    """Return True if the jar exists and has this digest."""
    return (JARS / name).is_file() and sha256(JARS / name) == digest


def make_jvm_jar() -> None:
    """Compile spark_apps/jvm against the jars of pyspark and of docker/jars.xml."""
    classes = ROOT / ".cache" / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    pyspark_jars = next(VENV.glob("lib/python*/site-packages/pyspark/jars"))
    class_path = os.pathsep.join([f"{pyspark_jars}/*", f"{JARS / 'spark'}/*"])
    sources = sorted(JVM_SOURCES.rglob("*.java"))
    lint = "-Xlint:all,-path,-classfile"  # not about what is missing in others' jars
    options = ("--release", "17", lint, "-Werror", "-cp", class_path, "-d", classes)
    run(java_tool("javac"), *options, *sources)
    write_jar(JVM_JAR, classes)


def write_jar(jar: Path, classes: Path) -> None:
    """Zip the classes; the jar appears whole or not at all."""
    unfinished = jar.with_suffix(".unfinished")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(classes.rglob("*.class")):
            entry = zipfile.ZipInfo(path.relative_to(classes).as_posix(), ZIP_EPOCH)
            archive.writestr(entry, path.read_bytes())
    unfinished.replace(jar)


def require_tools(tools: Iterable[str]) -> None:
    """Refuse to start while a tool is missing, and say how to install it.

    Raises:
        SetupError: with one line for each missing tool.
    """
    missing = [line for tool in dict.fromkeys(tools) if (line := missing_tool(tool))]
    if missing:
        raise SetupError("\n".join(missing))


def missing_tool(tool: str) -> str:
    """One line that says what is missing and how to install it, or nothing."""
    found = ""
    if tool == "java":
        version = java_version()
        present = version in JAVA_VERSIONS
        found = f" (found {version})" if version else ""
    elif tool == "venv":
        present = importlib.util.find_spec("ensurepip") is not None
    else:
        present = shutil.which(java_tool(tool) if tool == "javac" else tool) is not None
    if present:
        return ""
    name, debian, homebrew = INSTALL[tool]
    install = f"sudo apt-get install {debian} (macOS: brew install {homebrew})"
    return f"{name} is missing{found}. To install it: {install}"


def java_tool(name: str) -> str:
    """The program of JAVA_HOME, where Spark looks first, or the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / name) if home else name


def java_version() -> int:
    """Major version of the Java that Spark would start; 0 if there is none."""
    try:
        command = [java_tool("java"), "-version"]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except OSError:
        return 0
    version = re.search(r'version "(\d+)', told)
    return int(version[1]) if version else 0


def sha256(path: Path) -> str:
    """Digest of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*command: str | Path) -> None:
    """Run a command here, its output going to the terminal.

    Raises:
        SetupError: if it fails.
    """
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise SetupError(
            f"Set-up stopped: {Path(command[0]).name} failed, see above. Run `make setup` again."
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
