"""Actions for read files: where they are moved, and the conditions before that."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.conf_project import ConfProject
from tests.support.declared import declared
from tidemill.cli.pipeline_check import check_all
from tidemill.errors import SpecError
from tidemill.names import Layout
from tidemill.spec.files_after import check_after
from tidemill.spec.files_place import FilesPlace, files_place

LOCAL, AZURE = Layout("/data/lake"), Layout("abfss://lake@acme.dfs.core.windows.net/prod")
CONTAINER = "abfss://lake@acme.dfs.core.windows.net"

PIPELINE = """
description: Orders from files.
owner: tests
source:
  files: {path: "%s", format: json, schema: id long%s}
%ssinks:
  - %s
"""


def place(layout: Layout, path: str) -> FilesPlace:
    found = files_place(layout, path)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("layout", "path", "archive"),
    [
        (LOCAL, "landing/orders", "/data/lake/archived/landing/orders"),
        (LOCAL, "landing/*/orders", "/data/lake/archived/landing/*/orders"),
        (LOCAL, "file:///data/lake/landing", "/data/lake/archived/landing"),
        (LOCAL, "file:///mnt/in/orders", "/mnt/in/archived/orders"),
        (LOCAL, "file:///mnt/in/*/new", "/mnt/archived/in/*/new"),
        (AZURE, "landing/orders", f"{CONTAINER}/prod/archived/landing/orders"),
        (AZURE, f"{CONTAINER}/orders", f"{CONTAINER}/archived/orders"),
        (AZURE, f"{CONTAINER}/in/orders/*", f"{CONTAINER}/in/archived/orders/*"),
    ],
)
def test_the_archive_is_below_the_root_or_beside_the_folder(layout: Layout, path: str, archive: str) -> None:
    assert place(layout, path).archive_path == archive


@pytest.mark.parametrize(
    "path",
    ["*", "*/orders", ".", "archived/orders", "file:///orders", "file:///mnt/archived", f"{CONTAINER}/*"],
)
def test_some_folders_have_no_archive(path: str) -> None:
    assert files_place(AZURE, path) is None


@pytest.mark.parametrize(
    ("layout", "path", "uri", "name"),
    [
        (LOCAL, "landing/orders", "file:///data/lake/landing/orders/day=1/a%20b.json", "day=1/a b.json"),
        (LOCAL, "landing/orders", "file:/data/lake/landing/orders/a.json", "a.json"),
        (LOCAL, "landing/orders", "file:///data/lake/landing/others/a.json", None),
        (LOCAL, "landing/*/new", "file:///data/lake/landing/x/new/a.json", "x/new/a.json"),
        (LOCAL, "landing/*/new", "file:///data/lake/landing/x/old/a.json", None),
        (AZURE, "landing", f"{CONTAINER}/prod/landing/a%2520.json", "a%20.json"),
    ],
)
def test_a_file_has_a_name_below_its_folder(layout: Layout, path: str, uri: str, name: str | None) -> None:
    assert place(layout, path).name_of_uri(uri) == name


@pytest.mark.parametrize(
    ("layout", "path", "uri", "prefixes"),
    [
        (
            LOCAL,
            "landing/orders",
            "file:///data/lake/archived/landing/orders/day=1/a%20b.json",
            ("file:///data/lake/archived/landing/orders", "file:///data/lake/landing/orders"),
        ),
        (
            AZURE,
            f"{CONTAINER}/in/archive d/archived-too/orders",
            f"{CONTAINER}/in/archive%20d/archived-too/archived/orders/archived/a.json",
            (
                f"{CONTAINER}/in/archive%20d/archived-too/archived/orders",
                f"{CONTAINER}/in/archive%20d/archived-too/orders",
            ),
        ),
    ],
)
def test_an_archived_file_tells_where_it_came(
    layout: Layout, path: str, uri: str, prefixes: tuple[str, str]
) -> None:
    found = place(layout, path)
    assert found.archived_name_of_uri(uri) is not None
    assert found.original_prefix(uri) == prefixes


@pytest.fixture
def project(tmp_path: Path) -> ConfProject:
    made = ConfProject(tmp_path)
    (tmp_path / "conf/pipelines/orders.yaml").unlink()
    return made


def declare(project: ConfProject, name: str, path: str, after: str = "", **keys: str) -> None:
    """Declare a pipeline with a `sink` and further lines of the file."""
    sink = keys.get("sink", f"delta: {{table: bronze/{name}}}")
    project.write(f"conf/pipelines/{name}.yaml", PIPELINE % (path, after, keys.get("more", ""), sink))


def errors(project: ConfProject) -> list[str]:
    return [found.error.error_id for found in check_all(project.load()) if found.error is not None]


ARCHIVE, DELETE = ", after: archive", ", after: delete, keep_for: 30 days"


@pytest.mark.parametrize(
    ("path", "after", "expected"),
    [
        ("landing/orders", ARCHIVE, []),
        ("landing/*/orders", DELETE, []),
        ("file:///mnt/in/orders", ARCHIVE, []),
        ("landing/orders", ", keep_for: 1 day", ["TIDE-SPEC-003"]),
        ("landing/{a,b}", ARCHIVE, ["TIDE-SPEC-003"]),
        ("landing/orders", f"{ARCHIVE}, max_file_age: 1 day", ["TIDE-SPEC-003"]),
        ("landing/orders", f"{DELETE}, max_file_age: 1 day", []),
        ("*/orders", ARCHIVE, ["TIDE-FILE-001"]),
        ("archived/orders", ARCHIVE, ["TIDE-FILE-001"]),
        ("tables/bronze/others", DELETE, ["TIDE-FILE-001"]),
        ("s3a://another/orders", DELETE, ["TIDE-FILE-001"]),
        ("*/orders", "", []),
    ],
)
def test_a_declaration_is_checked(project: ConfProject, path: str, after: str, expected: list[str]) -> None:
    declare(project, "orders", path, after)
    assert errors(project) == expected


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        ("landing/orders", True),
        (f"{CONTAINER}/prod/landing/orders", True),
        (f"{CONTAINER}/orders", False),
        (f"{CONTAINER.replace('abfss', 'abfs')}/prod/landing/orders", False),
    ],
)
def test_a_folder_of_a_store_is_below_the_root_as_that_is_spelled(
    tmp_path: Path, path: str, fits: bool
) -> None:
    """Elsewhere a rewind could not see that a file is gone."""
    files = {"path": path, "format": "json", "schema": "id long", "after": "archive"}
    pipeline = declared(tmp_path, environment={"root": AZURE.root}, source={"files": files})
    refused = nullcontext() if fits else pytest.raises(SpecError, match="TIDE-FILE-001")
    with refused:
        check_after(pipeline)


@pytest.mark.parametrize(
    ("path", "sink", "expected"),
    [
        ("landing/orders", "delta: {table: bronze/other}", ["TIDE-FILE-002"]),
        ("landing/orders/day=1", "delta: {table: bronze/other}", ["TIDE-FILE-002"]),
        ("landing", "delta: {table: bronze/other}", ["TIDE-FILE-002"]),
        ("*/orders", "delta: {table: bronze/other}", ["TIDE-FILE-002"]),
        ("landing/other", "files: {path: landing/orders, format: json}", ["TIDE-FILE-002"]),
        ("landing/other", "delta: {table: bronze/other}", []),
        # Other pipelines may read archived files.
        ("archived/landing/orders", "delta: {table: bronze/other}", []),
    ],
)
def test_nobody_else_reads_or_writes_where_files_go_away(
    project: ConfProject, path: str, sink: str, expected: list[str]
) -> None:
    declare(project, "orders", "landing/orders", ARCHIVE)
    declare(project, "other", path, sink=sink)
    assert errors(project) == expected
    declare(project, "orders", "landing/orders")
    assert errors(project) == []


@pytest.mark.parametrize(("after", "expected"), [(ARCHIVE, ["TIDE-FILE-003"]), (DELETE, []), ("", [])])
def test_rows_that_tell_their_file_do_not_go_with_an_archive(
    project: ConfProject, after: str, expected: list[str]
) -> None:
    project.write(
        "spark_apps/transforms/paths.py",
        "def transform(orders):\n    return orders.selectExpr('*', '_metadata.file_path AS file')\n",
    )
    declare(project, "orders", "landing/orders", after, more="transform: paths:transform\n")
    assert errors(project) == expected
