"""Links between the pages of this repository lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted(
    page.relative_to(REPOSITORY)
    for folder in ("", "conf", "dags", "docker", "examples", "helm", "spark_apps", "tests")
    for page in (REPOSITORY / folder).glob("*.md" if not folder else "**/*.md")
)


def headings(page: Path) -> list[str]:
    """Return anchors of a page, as GitHub names them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = re.sub(r"```.*?```", "", (REPOSITORY / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (REPOSITORY / page).parent / path if path else REPOSITORY / page
        assert target.exists(), link
        if anchor:
            assert anchor in headings(target), link
