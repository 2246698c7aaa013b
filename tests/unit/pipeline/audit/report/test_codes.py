from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import kbroker
from kbroker.inspection.finding_codes import FindingCode
from kbroker.pipeline.archive.manifests.file_check import MISSING, WRONG_CHECKSUM, WRONG_SIZE
from kbroker.pipeline.audit.report.codes import CODES

ROOT = Path(kbroker.__file__).parent
PLACES = ("pipeline/audit",)


def texts() -> set[str]:
    """Every string in the modules that make findings."""
    return {
        text for place in PLACES for path in ROOT.glob(f"{place}/**/*.py") for text in _texts(path)
    }


def _texts(path: Path) -> Iterator[str]:
    if path.name == "codes.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def made_codes() -> set[str]:
    """What stands where a code does in the calls that make findings."""
    found = set()
    for place in PLACES:
        for path in ROOT.glob(f"{place}/**/*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    found |= set(_codes_of(node))
    return found


def _codes_of(call: ast.Call) -> Iterator[str]:
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    slots = {"Problem": 0, "Finding": 1, "_say": 1, "_finding": 1, "_batch_finding": 0}
    if name not in slots:
        return
    for argument in call.args[: slots[name] + 1]:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value


def test_every_code_that_is_made_has_its_meaning() -> None:
    made = made_codes()

    assert len(made) > 25
    assert {code for code in made if " " not in code and code} - CODES.keys() == set()


def test_every_meaning_belongs_to_a_code_that_is_made() -> None:
    elsewhere = {MISSING, WRONG_SIZE, WRONG_CHECKSUM, *FindingCode}
    assert CODES.keys() - texts() - elsewhere == set()


def test_meanings_are_sentences() -> None:
    assert [code for code, meaning in CODES.items() if not meaning.endswith((".", ")."))] == []
