"""Troubleshooting quotes what is really said, and every place that an error names is there."""

from __future__ import annotations

import ast
import re

import pytest

from kbroker.errors import Trouble
from tests.docs.pages import ROOT, headings, section, text_of
from tests.source_trees import parsed

PAGE = text_of("troubleshooting")
SECURITY = (
    "network/handshakes.py",
    "network/strangers.py",
    "sasl/login_gate.py",
    "sasl/plain.py",
    "sasl/scram_server.py",
    "server/broker/broker_tls.py",
    "server/broker/broker_logins.py",
    "server/broker/broker_principals.py",
    "server/start/hangup.py",
    "tokens/published_keys.py",
    "peers/tls_connect.py",
    "tls/tls_errors.py",
    "peers/broker_login.py",
    "peers/broker_channels.py",
)
NO_LINES = {  # parts and ends of lines, what only clients hear, and what is logged at DEBUG
    " of ...",
    "...: check user and password",
    "...Invalid username or password",
    "API key ...",
    "Authentication failed: ",
    "Authentication failed during ... due to invalid credentials with SASL mechanism ...",
    "Invalid SASL/PLAIN response: expected 3 tokens, got ...",
    "check user and password of the client",
    "check whom the client has its token from, and the settings sasl.oauthbearer.* here",
    "closed before it sent anything",
    "no token is taken until then",
    "set security.protocol and sasl.mechanism in the client",
    "ssl.enabled.protocols and ssl.cipher.suites of both sides have none in common",
    "str | None",
    "the ... known ones stay in force",
    "the broker at ...:...",
    "there is no thread for a handshake",
    "there is no thread for a login at ...",
    "tokens without an exchange",
}
SOURCES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "kbroker").rglob("*.py")}


def text_in(node: ast.AST) -> str | None:
    """The text that a node makes, with dots for what is put in; None for other nodes."""
    if isinstance(node, ast.JoinedStr):
        parts = node.values
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "..." for p in parts)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return re.sub(r"%[\w.]+", "...", node.value) if is_text else None


def sentences() -> str:
    """Every text of the code, with dots for what is put in, a line each."""
    nodes = (node for source in SOURCES.values() for node in ast.walk(parsed(source)))
    return "\n".join(filter(None, map(text_in, nodes)))


def quoted(page: str) -> list[str]:
    """The sentences that a page quotes, as patterns."""
    bold = re.findall(r"\*\*(`.*?`.*?)\*\*", page, re.DOTALL)
    words = [" ".join(word.split()) for text in bold for word in re.findall(r"`(.*?)`", text, re.S)]
    owns = [word.removesuffix(": Address already in use") for word in words]  # the system's words
    pieces = [re.split(r"\.\.\.|\d[\d.:,]*", own) for own in owns]
    return [".*".join(re.escape(each) for each in p if each.strip(" ,")) for p in pieces]


def logged(file: str) -> list[str]:
    """The sentences of a module for the log: those of its errors, reasons and warnings."""
    found = []
    waiting: list[ast.AST] = [parsed(SOURCES[ROOT / "kbroker" / file])]
    while waiting:
        node = waiting.pop()
        text = text_in(node)
        if text is not None:
            found += [text] if " " in text else []
        elif not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            waiting += [each for each in ast.iter_child_nodes(node) if not is_kept_quiet(each)]
    return found


def is_kept_quiet(node: ast.AST) -> bool:
    """Whether a node is for the client, for lower levels of the log alone, or of words that the
    sentences about certificates are made with.
    """
    if isinstance(node, ast.keyword):
        return node.arg in ("said", "error_message")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "Words"
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return is_call and node.func.attr in ("info", "debug")


def test_every_quoted_sentence_is_one_of_the_code() -> None:
    patterns, known = quoted(PAGE), sentences()

    assert len(patterns) > 20
    for pattern in patterns:
        assert re.search(pattern, known), pattern


def test_every_sentence_of_the_log_about_tls_and_logins_is_on_the_page() -> None:
    headings_of_log = section(PAGE, "## What a broker writes in its log")
    patterns = [pattern for pattern in quoted(headings_of_log) if pattern]
    lines = [line for file in SECURITY for line in logged(file)]

    assert len(lines) > 50
    unknown = {line for line in lines if not any(re.search(each, line) for each in patterns)}
    assert unknown - NO_LINES == set()


def test_the_places_that_errors_name_are_the_headings() -> None:
    parts = [heading for heading in headings(PAGE) if heading.startswith("What ")]
    of_commands = [part for part in parts if part.endswith(" says")]
    named = [heading for part in of_commands for heading in headings(section(PAGE, f"## {part}"))]

    assert len(of_commands) == 3
    assert named == [trouble.value for trouble in Trouble]


@pytest.mark.parametrize("trouble", Trouble, ids=lambda trouble: trouble.value)
def test_every_place_is_named_by_an_error(trouble: Trouble) -> None:
    assert any(f"Trouble.{trouble.name}" in source for source in SOURCES.values())
