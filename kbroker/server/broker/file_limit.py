"""The limit of open files: each partition that is written to takes one, each connection another."""

from __future__ import annotations

import logging
import sys

FEW = 1_024

_log = logging.getLogger(__name__)


def raise_file_limit() -> int | None:
    """Raise the limit as far as an ordinary process may. Returns it, None if there is none."""
    if sys.platform == "win32":
        return None
    import resource  # not there on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:  # macOS has a lower bound of its own
            _log.debug("cannot raise the limit of open files above %d: %s", soft, error)
    if soft == resource.RLIM_INFINITY:
        return None
    if soft < FEW:
        _log.warning(
            "this process may open only %d files; partitions and connections need one each: "
            "raise the limit with ulimit -n",
            soft,
        )
    return soft
