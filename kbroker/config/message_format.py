"""The message format that a version in the settings stands for.

Law: as in Kafka 3.9, `message.format.version` and `log.message.format.version` count only while
`inter.broker.protocol.version` is below 3.0; from there on format 2 is always written (KIP-724).
"""

from __future__ import annotations

import re
from typing import Final

_NUMBERS = re.compile(r"(\d+)\.(\d+)")
_FIRST_WITH_FORMAT_1: Final = (0, 10)
_FIRST_WITH_FORMAT_2: Final = (0, 11)
_FIRST_THAT_IGNORES: Final = (3, 0)


def message_format(version: str) -> int:
    """0, 1 or 2 for a version such as 0.9.0, 0.10.2-IV0 or 2.8."""
    numbers = version_numbers(version)
    if numbers < _FIRST_WITH_FORMAT_1:
        return 0
    return 1 if numbers < _FIRST_WITH_FORMAT_2 else 2


def is_format_version_ignored(inter_broker_protocol_version: str) -> bool:
    """True if the format versions of broker and topics do not count."""
    return version_numbers(inter_broker_protocol_version) >= _FIRST_THAT_IGNORES


def ignored_format_warning(
    name: str, version: str, inter_broker_protocol_version: str, topic: str | None = None
) -> str | None:
    """Return a warning for a version that names an old format but is ignored, else None."""
    if not is_format_version_ignored(inter_broker_protocol_version) or message_format(version) == 2:
        return None
    whose = f"{name}={version}" + (f" of topic {topic}" if topic else "")
    return (
        f"{whose} is ignored because inter.broker.protocol.version is "
        f"{inter_broker_protocol_version}: from 3.0 on records are always written in format 2, set "
        "it to 2.8 to write older formats"
    )


def version_numbers(version: str) -> tuple[int, int]:
    """The first two numbers of a release, which orders releases."""
    match = _NUMBERS.match(version)
    assert match is not None, f"{version} has passed the check of the setting"
    return int(match[1]), int(match[2])
