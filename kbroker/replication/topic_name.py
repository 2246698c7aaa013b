"""What a topic may be called: names become directory names."""

from __future__ import annotations

import re

# At most 249, so that "<topic>-<partition>.<id>-delete" is a directory name of at most 255 bytes.
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def is_valid_topic_name(name: str) -> bool:
    """True for 1 to 249 of `a-z A-Z 0-9 . _ -`, but not "." or ".."."""
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")
