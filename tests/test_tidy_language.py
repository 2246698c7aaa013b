"""Worn words stay out of the code, the pages, README and CHANGELOG; docstrings say what is done."""

from __future__ import annotations

import ast
import re

import pytest

from tests.source_trees import ROOT, parsed

TEXTS = [
    *sorted((ROOT / "kbroker").rglob("*.py")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
]
CODE = [
    path
    for folder in ("kbroker", "tests", "compat_tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
# pattern in lower case, with the space before it (quick to search) -> what to write instead
INSTEAD = {
    r" anew\b": "again; of indexes and caches: rebuilt; of topics: created again",
    r" is no (?<!there is no )(?!longer\b|more\b|other\b)\w+": "is not a ...",
    r" none of (ours|theirs)\b": "not ours, or whose it is",
    r" and that is said\b": "and says so, or what it logs",
    r" held against\b": "checked against, compared with",
    r" told as\b": "reported as",
    r" wants (tls|sasl|a login|a client certificate)\b": "needs, or asks for",
    r" parted by\b": "separated by",
    r" on its way out\b": "being deleted, or what is happening to it",
    r" who (says|wants|waits|tells|looks)\b": "name them: the client, the user, a reader",
    r" behind (its|the) end\b": "beyond its end: behind is for a follower or a group that lags",
    r" unasked\b": "unexpectedly",
    r" (speaks?|spoken) to\b": "talks to, or is meant for",
    r" pass(es|ed) over\b": "skipped, ignored, left out",
    r" sound disk\b": "healthy disk",
}


def worn(text: str) -> list[str]:
    """List the worn words of a text, each with what to write instead."""
    flat = " ".join(text.lower().split())
    for joint in ('" f"', '" "', "# "):
        flat = flat.replace(joint, "")
    return [
        f"'{found[0].strip()}': write {instead}"
        for pattern, instead in INSTEAD.items()
        for found in re.finditer(pattern, flat)
    ]


def test_no_worn_word_comes_back() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): words
        for path in TEXTS
        if (words := worn(path.read_text()))
    }

    assert found == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the file is no segment", 1),
        ("there is no segment, and it is no longer read", 0),
        ('"the index is made "\n    f"anew"', 1),
        ("the index is made\n    # anew", 1),
    ],
)
def test_a_worn_word_is_found_across_lines(text: str, words: int) -> None:
    assert len(worn(text)) == words


def functions_that_begin_with_what(source: str) -> list[str]:
    """Return the names of functions whose docstring says "What ..." and not what they do."""
    if '"""What ' not in source:
        return []
    return [
        node.name
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (ast.get_docstring(node) or "").startswith("What ")
    ]


def test_a_function_says_what_it_does() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in CODE
        if (names := functions_that_begin_with_what(path.read_text()))
    }

    assert found == {}


def test_a_function_that_begins_with_what_is_found() -> None:
    source = 'class A:\n    """What it is."""\n\n    def f(self):\n        """What it gives."""\n'

    assert functions_that_begin_with_what(source) == ["f"]
