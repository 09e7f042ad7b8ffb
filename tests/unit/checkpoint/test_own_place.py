"""Deletions in a copy's place affect only the copy: no link leads into it or out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.checkpoint.own_place import check_own_place
from tidemill.errors import GateRefusedError


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("link", ["root", "root/shadows", "root/shadows/orders", "root/shadows/orders/a/b"])
def test_a_link_on_the_way_or_below_is_refused(tmp_path: Path, scheme: str, link: str) -> None:
    place = tmp_path / "root/shadows/orders"
    check_own_place(f"{scheme}{place}", "shadow-run")
    (tmp_path / "elsewhere/shadows/orders").mkdir(parents=True)
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GateRefusedError) as refused:
        check_own_place(f"{scheme}{place}", "shadow-run")
    assert (refused.value.error_id, refused.value.runbook) == ("TIDE-CTRL-094", "shadow-run")


def test_an_object_store_has_no_links() -> None:
    check_own_place("s3a://lake/shadows/orders", "shadow-run")
