"""The text of a Java properties file, in which brokers and clients are configured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_KEY_AND_VALUE = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    r"""Settings in the format of Java's properties: comments, line ends with `\`, escapes."""
    values = {}
    for line in _logical_lines(text):
        match = _KEY_AND_VALUE.fullmatch(line)
        assert match is not None, "the pattern matches every line"
        values[_unescape(match[1])] = _unescape(match[2]).rstrip()
    return values


def properties_text(values: Mapping[str, str]) -> str:
    r"""Settings as `parse_properties`, Java and librdkafka's tools read them: a value of several
    lines is on as many, each but the last with `\n` and a backslash at its end.
    """
    lines = []
    for name, value in values.items():
        escaped = value.replace("\\", "\\\\").strip()
        folded = "\\n\\\n".join(escaped.splitlines())
        lines.append(f"{name}={folded}\n")
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank lines, continued lines joined."""
    pending = ""
    for line in re.split(r"\r\n|\r|\n", text):
        stripped = line.lstrip(" \t\f")
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            pending += stripped[:-1]
            continue
        yield pending + stripped
        pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]), text
    )
