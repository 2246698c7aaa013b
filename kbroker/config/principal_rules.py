"""`ssl.principal.mapping.rules`: how the name in a certificate becomes the name of a user.

    DEFAULT                              the whole name
    RULE:pattern/replacement/[L|U]       for a name that the whole pattern matches; L, U: its case

Law: rules give the names that Kafka 3.9's `SslPrincipalMapper` gives, its oddities included: every
match of the pattern is replaced, so that `.*` gives the replacement twice. A pattern that Python
would read in another way than Java is refused, as it could let in somebody else. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from kbroker.config.config_values import invalid_value

NAME = "ssl.principal.mapping.rules"
_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)", re.ASCII)
_PARSER = re.compile(_RULE, re.ASCII)
_BLANKS = "".join(map(chr, range(33)))  # that Java trims

_BACK_REFERENCE = re.compile(r"\$([0-9]+)")
_GROUP_NAME = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}")
# Parts of a pattern that stand outside of a set, or are one.
_PART = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)|\\.|\(\?<(?=[a-zA-Z])|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL
)
_ESCAPES_OF_JAVA = {r"\z": r"\Z", r"\h": r"[ \t\xa0]", r"\Z": r"(?=[\n\r]?\Z)"}
_SPLIT_SET = re.compile(r"(?<!\\)(?:\\\\)*(?:&&|\[)")
_HINT = "write it with what both have"


class NoRuleError(Exception):
    """No rule is for this name."""


class _ReplacementError(Exception):
    """A replacement speaks of a group that its pattern does not have."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replacement: str
    case: str  # L, U, or empty for the case as it is

    def apply(self, name: str) -> str | None:
        if not self.pattern.fullmatch(name):
            return None
        template = _with_literal_references(self.replacement, self.pattern.groups)
        result = self.pattern.sub(partial(_replaced, template), name)
        if self.case == "L":
            return result.lower()
        return result.upper() if self.case == "U" else result


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """The rules of a listener, in their order; None stands for DEFAULT."""

    rules: tuple[_Rule | None, ...]

    def user_name(self, name: str) -> str:
        """The user's name for the name in a certificate, by the first rule that matches. Raises
        NoRuleError if none does, or if the one that does asks for a group that it has not.
        """
        for rule in self.rules:
            try:
                found = name if rule is None else rule.apply(name)
            except _ReplacementError as error:
                raise NoRuleError(f"{NAME}: the rule for {name}: {error}") from error
            if found is not None:
                return found
        raise NoRuleError(f"{NAME}: no rule is for {name}: add one, or DEFAULT")


def parse_principal_rules(text: str, name: str = NAME) -> PrincipalRules:
    """The rules in a setting of that name. Raises ConfigError for one that cannot be read."""
    texts = [match[1] for match in _SPLITTER.finditer(text.strip(_BLANKS))]
    rules: list[_Rule | None] = []
    for each in texts:
        match = _PARSER.match(each)
        if match is None or match.end() != len(each):
            reason = f"{each} is neither DEFAULT nor RULE:pattern/replacement/ with L, U or nothing"
            raise invalid_value(name, text, reason)
        is_default, pattern, replacement, case, _ = match.groups()
        if is_default:
            rules.append(None)
        elif pattern is not None:
            try:
                rules.append(_Rule(_compiled(pattern), replacement, case))
            except (re.error, OverflowError) as error:
                reason = f"the pattern {pattern} cannot be used: {error}"
                raise invalid_value(name, text, reason) from error
    return PrincipalRules(tuple(rules))


def _compiled(pattern: str) -> re.Pattern[str]:
    """The pattern of Java's for Python; raises re.error."""
    translated = "".join(_translated(match) for match in _PART.finditer(pattern))
    return re.compile(translated, re.ASCII)


def _translated(match: re.Match[str]) -> str:
    part = match[0]
    if match["quoted"] is not None:
        return re.escape(match["quoted"])
    if part == "(?<":
        return "(?P<"
    if part.startswith("[") and _SPLIT_SET.search(part[1:]):
        raise re.error(f"Python has no sets within sets: {_HINT}")
    if part in (r"\v", r"\N", r"\x", r"\u", r"\U", r"\0", r"\k"):
        raise re.error(f"{part} means something else in Python: {_HINT}")
    return _ESCAPES_OF_JAVA.get(part, part)


def _with_literal_references(replacement: str, groups: int) -> str:
    """The replacement with a backslash before each reference to a group that there is not.

    As in Kafka: places are those of the original text, so that a second backslash comes too early.
    """
    if groups == 0:
        return replacement
    value = replacement
    for match in _BACK_REFERENCE.finditer(replacement):
        if match[1].startswith("0"):
            continue
        number = int(match[1])
        if number >= 2**31:
            raise _ReplacementError(f"there is no group {match[1]}")
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            before = match.start(1) - 1
            value = f"{value[:before]}\\{value[before:]}"
    return value


def _replaced(template: str, match: re.Match[str]) -> str:
    """The text that stands for one match: `$1` and `${name}` are groups, a backslash quotes."""
    return "".join(_pieces(template, match))


def _pieces(template: str, match: re.Match[str]) -> Iterator[str]:
    position = 0
    while position < len(template):
        char, following = template[position], template[position + 1 : position + 2]
        if char not in "\\$":
            yield char
            position += 1
        elif not following:
            raise _ReplacementError(f"the replacement ends with {char}")
        elif char == "\\":
            yield following
            position += 2
        else:
            group, position = _group(template, position + 1, match)
            yield group


def _group(template: str, start: int, match: re.Match[str]) -> tuple[str, int]:
    """The group that is named at `start`, and where its name ends."""
    named = _GROUP_NAME.match(template, start)
    if named is not None:
        if named[1] not in match.re.groupindex:
            raise _ReplacementError(f"there is no group {named[1]}")
        return match[named[1]] or "", named.end()
    digits = re.match("[0-9]+", template[start:])
    if digits is None:
        raise _ReplacementError("after $ comes the number of a group, or its name in {}")
    # The longest number that is one of a group; the digits after it are text.
    count = next(
        (n for n in range(len(digits[0]), 0, -1) if int(digits[0][:n]) <= match.re.groups), 0
    )
    if not count:
        raise _ReplacementError(f"there is no group {digits[0][0]}")
    return match[int(digits[0][:count])] or "", start + count
