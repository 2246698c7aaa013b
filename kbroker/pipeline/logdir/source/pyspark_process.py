"""The process of pyspark that this is, and how its errors reach a person.

pyspark plans and reads in processes of its own. What ends one of them it hands on as text: with the
traceback, unless the environment says otherwise at that moment. It is said here, for errors that
are a sentence already; the process ends with them, so that nothing else is hidden.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kbroker.pipeline.errors import PipelineError

_HIDING = "SPARK_HIDE_TRACEBACK"
_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


@contextmanager
def as_sentences() -> Iterator[None]:
    """Let a PipelineError of what is done in the `with`, or by the function that this decorates,
    reach the person as its sentence.
    """
    try:
        yield
    except PipelineError:
        if _main_module().startswith("pyspark."):
            os.environ[_HIDING] = "1"
        raise


def is_pushing_filters() -> bool:
    """True in the process that is told the filters of a query."""
    return _PUSHING_WORKER in sys.modules or _main_module() == _PUSHING_WORKER


def _main_module() -> str:
    """As `python -m` was told it; nothing where a script or a shell runs."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", "")
