"""The process of pyspark that this is: how its errors reach a person, and what it is spared.

pyspark plans and reads in processes of its own. What ends one of them it hands on as text: with the
traceback, unless the environment says otherwise at that moment. It is said here, for errors that
are a sentence already; the process ends with them, so that nothing else is hidden.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from zipimport import zipimporter

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
        if _is_of_pyspark():
            os.environ[_HIDING] = "1"
        raise


def spare_process() -> None:
    """Spare a worker or planner of pyspark what it does around each task without need: called by
    what runs there, each time; nothing elsewhere. It halves the time of a task without work.

    After a task it collects garbage, mostly what pandas and pyspark made when they were imported:
    50 ms. Before a task it lets all importers look again: pyspark comes out of a zip file, each of
    its packages has an importer of its own, and each reads the whole directory of that file: 120 ms
    for 17 of them. One that is missing is made when something is imported.
    """
    if not _is_of_pyspark():
        return
    _freeze()
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]


@functools.cache
def _freeze() -> None:
    """Once per process: leave out of garbage collections what is there now."""
    gc.freeze()


def is_pushing_filters() -> bool:
    """True in the process that is told the filters of a query."""
    return _PUSHING_WORKER in sys.modules or _main_module() == _PUSHING_WORKER


def _is_of_pyspark() -> bool:
    return _main_module().startswith("pyspark.")


def _main_module() -> str:
    """The module given to `python -m`; nothing if a script or a shell runs."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", "")
