"""Selection of the tests of `make near`."""

from __future__ import annotations

from pathlib import Path

from tests.near import distances, nearest_tests

HERE = Path("tests/unit/test_near.py")


def test_a_test_is_as_far_from_a_module_as_imports_lead_to_it() -> None:
    found = distances([Path("tests/coverage/rows.py")])
    assert found[Path("tests/near.py")] == 1
    assert found[HERE] == 2
    assert Path("tests/unit/test_jars.py") not in found


def test_a_test_that_names_a_changed_file_is_next_to_it() -> None:
    assert distances([Path("dags/runbooks/fenced.md"), Path("versions.env")])[HERE] == 1


def test_the_nearest_and_shortest_tests_run_and_a_changed_one_always() -> None:
    found = {
        Path(f"tests/unit/test_{name}.py"): distance
        for name, distance in zip("abcd", (0, 1, 1, 2), strict=True)
    }
    seconds = {
        f"tests/unit/test_{name}.py::test": time
        for name, time in zip("abcd", (9.0, 4.0, 2.0, 1.0), strict=True)
    }
    chosen, left_out = nearest_tests({**found, Path("tests/spark/test_e.py"): 1}, seconds, limit=12.0)
    assert [Path(path).stem for path in chosen] == ["test_a", "test_c", "test_d"]
    assert left_out == 1
