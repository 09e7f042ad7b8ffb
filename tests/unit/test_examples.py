"""The examples' page and files agree with the list of examples; running them is a matter of tests/kafka."""

from __future__ import annotations

from pathlib import Path

from examples.proofs.catalogue import EXAMPLES
from examples.proofs.example import REPOSITORY
from examples.proofs.page import PAGE, with_table
from tidemill.cli.pipeline_check import check_all
from tidemill.spec.project import load_environment
from tidemill.spec.project_folder import Project

ROOT = Path(__file__).parents[2]

# The documents' list leaves these numbers out.
LEFT_OUT = {13, 31}


def names(folder: Path) -> set[str]:
    return {file.stem for file in (folder / "conf/pipelines").glob("*.yaml")}


def test_every_example_of_the_documents_is_in_the_list_once_and_in_order() -> None:
    assert [example.number for example in EXAMPLES] == [n for n in range(1, 39) if n not in LEFT_OUT]


def test_every_example_runs_or_says_why_not() -> None:
    for example in EXAMPLES:
        is_missing = example.note.startswith("not yet: ")
        assert bool(example.pipelines) != is_missing, example.number
        is_told_elsewhere = example.note.startswith("the same as ")
        assert (example.proof is None) == (is_missing or is_told_elsewhere), example.number


def test_every_pipeline_belongs_to_an_example_and_every_example_has_its_files() -> None:
    used = {name for example in EXAMPLES for name in example.pipelines}
    assert {name for name in used if not name.startswith(REPOSITORY)} == names(ROOT / "examples")
    ours = {name.removeprefix(REPOSITORY) for name in used if name.startswith(REPOSITORY)}
    assert ours <= names(ROOT)
    wrong = {name for example in EXAMPLES for name in {**example.refused, **example.reported}}
    assert wrong == names(ROOT / "examples/wrong")


def test_the_pipelines_are_right() -> None:
    findings = check_all(load_environment(Project(ROOT / "examples"), "local", {}))
    assert [(finding.name, finding.error) for finding in findings if finding.error is not None] == []


def test_what_a_wrong_declaration_shares_with_the_right_one_is_the_same() -> None:
    right, wrong = ROOT / "examples", ROOT / "examples/wrong"
    files = [
        file.relative_to(wrong)
        for part in ("conf/schemas", "spark_apps")
        for file in wrong.glob(f"{part}/**/*.*")
    ]
    shared = [file for file in files if (right / file).is_file()]
    assert shared
    assert [file for file in shared if (right / file).read_bytes() != (wrong / file).read_bytes()] == []


def test_the_page_shows_the_list() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text()), "run make generate"
