"""The section about the doctor: what it shows is run, and it names every finding."""

from __future__ import annotations

import ast
import re

from tests.docs.pages import ROOT, section, shown_commands, text_of
from tests.docs.terminals import run
from tests.fakes.running.forked_broker import Broker
from tests.source_trees import parsed

PAGE = section(text_of("troubleshooting"), "## Ask the doctor")
RULES = ROOT / "kbroker" / "cli" / "doctor" / "rules"


def test_what_it_shows_is_printed() -> None:
    with Broker() as broker:
        run(["kbroker", "topic", "create", "t"], ROOT, KBROKER_BOOTSTRAP=broker.bootstrap)
        for shown in shown_commands(PAGE):
            output = run(["bash", "-c", shown.command], ROOT, KBROKER_BOOTSTRAP=broker.bootstrap)
            assert output.strip() == shown.output.strip()


def test_it_names_every_finding() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {code for row in rows for code in re.findall(r"`([a-z-]+)`", row)}

    assert named == codes()


def codes() -> set[str]:
    """The codes that rules give their findings: a name, or the first word of a cause."""
    found = set()
    for path in RULES.glob("*.py"):
        for node in ast.walk(parsed(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id == "Cause":
                values = node.args[:1]
            else:
                values = [each.value for each in node.keywords if each.arg == "code"]
            found |= {each.value for each in values if isinstance(each, ast.Constant)}
    return {str(code) for code in found}
