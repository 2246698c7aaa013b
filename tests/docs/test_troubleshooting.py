"""Troubleshooting quotes what is really said, and every place that an error names is there."""

from __future__ import annotations

import ast
import re

import pytest

from kbroker.errors import Trouble
from tests.docs.pages import ROOT, headings, section, text_of
from tests.source_trees import parsed

PAGE = text_of("troubleshooting")
SOURCES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "kbroker").rglob("*.py")}


def sentences() -> str:
    """Every text of the code, with dots for what is put in, a line each."""
    found = []
    for source in SOURCES.values():
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(
                    str(part.value) if isinstance(part, ast.Constant) else "..."
                    for part in node.values
                ))  # fmt: skip
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_every_quoted_sentence_is_one_of_the_code() -> None:
    bold = re.findall(r"\*\*(`.*?`.*?)\*\*", PAGE, re.DOTALL)
    named = [" ".join(word.split()) for text in bold for word in re.findall(r"`(.*?)`", text, re.S)]
    known = re.sub(r"%[\w.]+", "...", sentences())

    assert len(named) > 20
    for word in named:
        own = word.removesuffix(": Address already in use")  # what the system says
        pieces = re.split(r"\.\.\.|\d[\d.:,]*", own)
        wanted = ".*".join(re.escape(piece) for piece in pieces if piece.strip(" ,"))
        assert re.search(wanted, known), word


def test_the_places_that_errors_name_are_the_headings() -> None:
    parts = [heading for heading in headings(PAGE) if heading.startswith("What ")]
    of_commands = [part for part in parts if part.endswith(" says")]
    named = [heading for part in of_commands for heading in headings(section(PAGE, f"## {part}"))]

    assert len(of_commands) == 3
    assert named == [trouble.value for trouble in Trouble]


@pytest.mark.parametrize("trouble", Trouble, ids=lambda trouble: trouble.value)
def test_every_place_is_named_by_an_error(trouble: Trouble) -> None:
    assert any(f"Trouble.{trouble.name}" in source for source in SOURCES.values())
