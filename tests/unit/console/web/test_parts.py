from __future__ import annotations

from kbroker.console.pages import Page
from kbroker.console.web.parts import Column, moment, pager, size, table
from kbroker.console.web.web_request import Fields, WebRequest


def test_sizes_and_times_are_words_a_person_reads() -> None:
    sizes = [size(each) for each in (None, 0, 1023, 1024, 5_242_880, 1 << 62)]
    assert sizes == ["not known", "0 B", "1023 B", "1.0 KiB", "5.0 MiB", "4096.0 PiB"]
    assert ">2026-11-30 06:00:00.123Z<" in moment(1_796_018_400_123)
    assert moment(None) == "not known"
    assert moment(10**18) == str(10**18)


def test_a_table_names_its_columns_beside_each_value() -> None:
    made = table("Topics", [Column("Topic"), Column("Size", is_number=True)], [("<a>", 3)], "none")

    assert '<th scope="row" data-head="Topic">&lt;a&gt;</th>' in made
    assert '<td data-head="Size" class="number">3</td>' in made
    assert table("Topics", [Column("Topic")], [], "none") == '<p class="empty">none</p>'


def test_pages_are_linked_as_far_as_there_are_some() -> None:
    request = WebRequest(method="GET", path="/topics", query=Fields({"q": ["a"]}), headers={})

    middle = pager(request, Page(rows=(), total=1_200, number=2, pages=3), "topic")
    only = pager(request, Page(rows=(), total=1, number=1, pages=1), "topic")

    assert "1,200 topics, page 2 of 3" in middle
    assert 'href="/topics?q=a&amp;page=1"' in middle
    assert 'href="/topics?q=a&amp;page=3"' in middle
    assert only == '<p class="pager"><span>1 topic</span></p>'
