"""The audit's table of codes, held against the modules that make findings; and both tables against
strings that would go round them.
"""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

import kbroker
from kbroker.inspection.finding import FindingKind, Severity
from kbroker.inspection.finding_codes import FindingCode
from kbroker.pipeline.finding_codes import AuditCode

ROOT = Path(kbroker.__file__).parent
ROOMS = ("inspection", "pipeline", "cli")  # where findings are made, and shown
MODULES = [
    path
    for room in ROOMS
    for path in sorted((ROOT / room).rglob("*.py"))
    if path.name != "finding_codes.py"
]
ALL = [*FindingCode, *AuditCode]


@pytest.fixture(scope="module")
def nodes() -> list[ast.AST]:
    """All that stands in the modules, but for the tables."""
    return [node for path in MODULES for node in ast.walk(ast.parse(path.read_text()))]


def test_every_code_is_made(nodes: list[ast.AST]) -> None:
    named = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "AuditCode"
    }

    assert named == set(AuditCode.__members__)


def test_nobody_writes_a_code_as_a_string(nodes: list[ast.AST]) -> None:
    values = {code.value for code in ALL}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}

    assert texts & values == set()


def test_a_code_stands_in_one_table() -> None:
    assert len({code.value for code in ALL}) == len(ALL)


@pytest.mark.parametrize("code", list(AuditCode))
def test_a_code_is_one_word_for_programs_and_two_sentences_for_people(code: AuditCode) -> None:
    assert f"{code}" == code.value == code.name.lower().replace("_", "-")
    assert code.meaning.endswith((".", ")."))
    assert code.advice


def test_a_finding_is_as_bad_as_its_code_unless_told_otherwise() -> None:
    code = AuditCode.CLUSTER_LACKS

    plain = code.finding("path", "what", offset=3)
    mild = code.finding("path", "what", severity=Severity.INFO, advice="none")

    assert (plain.severity, plain.advice, plain.offset) == (code.worst, code.advice, 3)
    assert (mild.severity, mild.advice, mild.offset) == (Severity.INFO, "none", None)


@pytest.mark.parametrize("code", [FindingCode.BATCH_CRC, AuditCode.ARCHIVE_LOST])
def test_a_code_comes_back_from_another_process_as_itself(code: FindingKind) -> None:
    assert pickle.loads(pickle.dumps(code)) is code
