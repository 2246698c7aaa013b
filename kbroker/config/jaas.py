"""Login entries in JAAS form, as `sasl.jaas.config` has them, and as files of Java's have them in
sections:

    <section> { <module> <flag> <option>=<value> ...; };

Law: no error shows a text of an entry, which has passwords. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_FLAGS = ("required", "requisite", "sufficient", "optional")
_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SECTION = re.compile(r"""([^\s"'=;{}]+)|"([^"\\]+)\"""")
_WORD = re.compile(r"""[^\s"'=;{}]+""")
_VALUE = re.compile(r""""((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+)""", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """One entry: the class of the module, what its failure means, and its options by name."""

    module: str
    flag: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def class_name(self) -> str:
        """The class without its package."""
        return self.module.rpartition(".")[2]

    def text(self) -> str:
        """The entry as `parse_jaas` reads it."""
        options = "".join(f" {name}={_quoted(value)}" for name, value in self.options.items())
        return f"{self.module} {self.flag}{options};"


def parse_jaas(text: str) -> tuple[LoginModule, ...]:
    """The entries in the text, in their order. Raises ValueError that says what is missing.

    >>> parse_jaas('a.b.PlainLoginModule required username="ann";')
    (LoginModule(module='a.b.PlainLoginModule', flag='required'),)
    """
    modules = []
    position = _after(_BLANK, text, 0)
    while position < len(text):
        module, position = _entry(text, position)
        modules.append(module)
    if not modules:
        raise ValueError("it has no login module")
    return tuple(modules)


def parse_jaas_file(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """The entries of each section of a file, by its name. Raises ValueError.

    >>> parse_jaas_file('Client { a.b.DigestLoginModule required username="ann"; };')
    {'Client': (LoginModule(module='a.b.DigestLoginModule', flag='required'),)}
    """
    sections: dict[str, tuple[LoginModule, ...]] = {}
    position = _after(_BLANK, text, 0)
    while position < len(text):
        which = f"section {len(sections) + 1}"
        name = _SECTION.match(text, position)
        if name is None:
            raise ValueError(f"the name of {which} is missing")
        position = _mark(text, name.end(), "{", f"{{ is missing after the name of {which}")
        modules = []
        while text[position : position + 1] != "}":
            module, position = _entry(text, position)
            modules.append(module)
        position = _mark(text, position + 1, ";", f"the semicolon after {which} is missing")
        section = name[1] or name[2]
        if section in sections:
            raise ValueError(f"{which} has the name of an earlier one")
        sections[section] = tuple(modules)
    return sections


def _mark(text: str, start: int, mark: str, missing: str) -> int:
    """The place after a mark and the blanks around it."""
    position = _after(_BLANK, text, start)
    if text[position : position + 1] != mark:
        raise ValueError(missing)
    return _after(_BLANK, text, position + 1)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _entry(text: str, start: int) -> tuple[LoginModule, int]:
    """The entry that begins at `start`, and where the next one does."""
    module, position = _word(text, start, "a login module is missing")
    flag, position = _word(text, position, "required is missing after the login module")
    if flag.lower() not in _FLAGS:
        raise ValueError(f"after the login module comes one of {', '.join(_FLAGS)}")
    options = {}
    while text[position : position + 1] != ";":
        if position == len(text):
            raise ValueError("the semicolon at the end is missing")
        name, position = _word(text, position, "the name of an option is missing")
        value = None
        if text[position : position + 1] == "=":
            position = _after(_BLANK, text, position + 1)
            value = _VALUE.match(text, position)
        if value is None:
            raise ValueError('an option has no value: write NAME="VALUE"')
        quoted = value[1] if value[1] is not None else value[2]
        options[name] = value[3] if quoted is None else re.sub(r"(?s)\\(.)", r"\1", quoted)
        position = _after(_BLANK, text, value.end())
    position = _after(_BLANK, text, position + 1)
    return LoginModule(module=module, flag=flag.lower(), options=options), position


def _word(text: str, start: int, missing: str) -> tuple[str, int]:
    found = _WORD.match(text, start)
    if found is None:
        raise ValueError(missing)
    return found[0], _after(_BLANK, text, found.end())


def _after(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()
