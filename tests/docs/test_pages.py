"""The pages as a whole: links lead somewhere, generated parts are up to date, lines are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.generated import PARTS, part_in
from tests.docs.packages_picture import PICTURE, picture
from tests.docs.pages import DOCS, PAGES, README, anchors, links, text_of, without_blocks


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        name, _, anchor = link.partition("#")
        target = page if not name else (page.parent / name).resolve()
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_at_most_120_columns(page: Path) -> None:
    plain = without_blocks(page.read_text(encoding="utf-8")).splitlines()
    prose = [line for line in plain if not line.startswith(("|", "![", "`"))]

    assert [line for line in prose if len(line) > 120] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_one_title(page: Path) -> None:
    plain = without_blocks(page.read_text(encoding="utf-8"))

    assert len(re.findall(r"^# ", plain, re.M)) == 1


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize("start", ["README", "index"])
def test_every_page_is_linked(start: str) -> None:
    linked = {Path(link).name for link in links(text_of(start))}

    assert {path.name for path in DOCS.glob("*.md")} - {"index.md"} <= linked


@pytest.mark.parametrize("name", PARTS)
def test_what_is_made_from_the_code_is_up_to_date(name: str) -> None:
    page, made = PARTS[name]

    assert part_in(text_of(page), name) == made(), "run `python -m tests.docs.generated`"


def test_the_picture_of_the_packages_is_up_to_date() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `python -m tests.docs.generated`"


def test_no_page_of_the_site_links_what_the_site_lacks() -> None:
    found = [
        (page.name, link) for page in PAGES if page != README for link in links(page.read_text())
    ]

    assert [link for link in found if link[1].startswith("../")] == []
