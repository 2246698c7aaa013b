"""How kbroker's code behaves in the processes of pyspark: how errors reach a person, and which
overhead is avoided.

pyspark plans and reads in processes of its own. If an error ends one of them it is passed on as
text, with the traceback unless the environment says otherwise at that moment. Here the environment
does, for errors that are already a sentence; the process ends with them, so nothing else is hidden.
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
    """Let a PipelineError of the block or decorated function reach the person as its sentence."""
    try:
        yield
    except PipelineError:
        if _is_of_pyspark():
            os.environ[_HIDING] = "1"
        raise


def spare_process() -> None:
    """Spare a worker or planner of pyspark needless work around each task; called there by each
    task, and without effect elsewhere. It halves the time of an empty task.

    After a task the process collects garbage, mostly from the import of pandas and pyspark: 50 ms.
    Before a task it invalidates all importers: pyspark lies in a zip file, each of its packages has
    an importer of its own, and each reads the whole directory of that file: 120 ms for 17 of them.
    A missing importer is made when something is imported.
    """
    if not _is_of_pyspark():
        return
    _freeze()
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]


@functools.cache
def _freeze() -> None:
    """Exclude what exists now from garbage collection; once per process."""
    gc.freeze()


def is_pushing_filters() -> bool:
    """Return whether this is the process to which Spark pushes the filters of a query."""
    return _PUSHING_WORKER in sys.modules or _main_module() == _PUSHING_WORKER


def _is_of_pyspark() -> bool:
    return _main_module().startswith("pyspark.")


def _main_module() -> str:
    """Return the module given to `python -m`; empty if a script or a shell runs."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", "")
