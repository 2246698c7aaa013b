"""The Python process that plans a stream of "kbroker-log" and starts too slowly: Spark gives it 10
s to answer, which no setting changes, and then gives up the query. A busy machine, or one that
imports pyspark for the first time, may need longer. Nothing of the query has run by then, so it can
be started again.
"""

from __future__ import annotations

import re

STARTS = 4  # in a row, before a job is given up
_GIVEN_UP = re.compile(r"Python worker failed to connect back")


def is_slow_start(error: Exception) -> bool:
    """Return whether Spark gave up a process that had not answered."""
    return _GIVEN_UP.search(str(error)) is not None


def trying_again(failed: int) -> str:
    """Return the sentence for a person after `failed` starts."""
    return (
        "a Python process of Spark did not answer within 10 s (a busy machine?): starting it again "
        f"({failed + 1} of {STARTS})"
    )
