"""The packages of the extra `kbroker[security]`: what needs one says so before it begins.

Law: they are imported where they are needed, and only there; a broker without security imports none
of them.
"""

from __future__ import annotations

from importlib.util import find_spec

from kbroker.errors import ConfigError


def check_security_extra(module: str, purpose: str) -> None:
    """Make sure that `module` is installed. Raises ConfigError with the command that installs it.

    `purpose` begins the sentence: "OAUTHBEARER at listener INSIDE".
    """
    if find_spec(module) is None:
        raise ConfigError(
            f"{purpose} needs {module}, which is not installed: pip install 'kbroker[security]'"
        )
