"""The table of finding codes, held against the calls that make findings."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kbroker
from kbroker.inspection.finding import Severity
from kbroker.inspection.finding_codes import FindingCode

MODULES = sorted((Path(kbroker.__file__).parent / "inspection").glob("*.py"))


def members_of(node: ast.AST, enum: str) -> set[str]:
    """Names of the members of an enum that stand in a piece of source."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and ast.unparse(each.value) == enum
    }


def test_every_code_is_made() -> None:
    made = set().union(*(members_of(ast.parse(p.read_text()), "FindingCode") for p in MODULES))

    assert made == set(FindingCode.__members__)


@pytest.mark.parametrize("code", list(FindingCode))
def test_no_finding_is_worse_than_its_code_can_be(code: FindingCode) -> None:
    assert code.finding("path", "what").severity is code.worst
    assert code.finding("path", "what", severity=Severity.INFO).severity is Severity.INFO
    if code.worst < Severity.ERROR:
        with pytest.raises(AssertionError):
            code.finding("path", "what", severity=Severity.ERROR)


def test_no_check_makes_a_finding_but_by_its_code() -> None:
    calls = [
        path.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"
    ]

    assert set(calls) == {"finding.py"}


@pytest.mark.parametrize("code", list(FindingCode))
def test_a_code_is_one_word_for_programs_and_a_sentence_for_people(code: FindingCode) -> None:
    assert f"{code}" == code.value == code.name.lower().replace("_", "-")
    assert code.meaning.endswith((".", ")."))
