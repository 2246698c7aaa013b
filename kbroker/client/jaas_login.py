"""Name and password out of `sasl.jaas.config`, the way Java's clients are given them."""

from __future__ import annotations

import re

_MODULE = re.compile(r"\s*[\w.]*(?:Plain|Scram)LoginModule\s+required\b(.*);\s*", re.DOTALL)
_FIELD = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


def jaas_fields(text: str) -> dict[str, str] | None:
    """The fields of a login by PLAIN or SCRAM; None if it is none, or lacks name or password.

    >>> jaas_fields('a.PlainLoginModule required username="ann" password=secret;')
    {'username': 'ann', 'password': 'secret'}
    """
    module = _MODULE.fullmatch(text)
    if module is None:
        return None
    fields = {
        name: re.sub(r"\\(.)", r"\1", double or single) or bare
        for name, double, single, bare in _FIELD.findall(module[1])
    }
    return fields if {"username", "password"} <= fields.keys() else None
