"""Names as messages of SCRAM and OAUTHBEARER have them: "saslname" of RFC 5801. Pure.

Any character of UTF-8 may stand in a name, as in the RFC (Apache takes ASCII).
"""

from __future__ import annotations

SASL_NAME = r"(?:[^\0=,]|=2C|=3D)+"
"""Matches a name in a message."""


def escaped(name: str) -> str:
    """Write a name as messages have it.

    >>> escaped("a=b,c")
    'a=3Db=2Cc'
    """
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """Read a name that the grammar has checked."""
    return name.replace("=2C", ",").replace("=3D", "=")
