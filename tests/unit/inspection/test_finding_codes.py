"""The table of finding codes, held against the calls that make findings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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


def said() -> Iterator[tuple[str, str]]:
    """(severity, code) that stand together as arguments of a call."""
    for path in MODULES:
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and len(call.args) > 1:
                severities = members_of(call.args[0], "Severity")
                for code in members_of(call.args[1], "FindingCode"):
                    yield from ((severity, code) for severity in severities)


def test_every_code_is_made() -> None:
    made = set().union(*(members_of(ast.parse(p.read_text()), "FindingCode") for p in MODULES))

    assert made == set(FindingCode.__members__)


def test_no_finding_is_worse_than_its_code_can_be() -> None:
    together = list(said())

    assert len(together) > 20
    assert [pair for pair in together if Severity[pair[0]] > FindingCode[pair[1]].worst] == []


@pytest.mark.parametrize("code", list(FindingCode))
def test_a_code_is_one_word_for_programs_and_a_sentence_for_people(code: FindingCode) -> None:
    assert f"{code}" == code.value == code.name.lower().replace("_", "-")
    assert code.meaning.endswith((".", ")."))
