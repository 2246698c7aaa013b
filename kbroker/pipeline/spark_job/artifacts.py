"""Removes what Spark 4.0 leaves in the working directory: `artifacts/`, with a folder for each of
its processes, wherever other temporary files go. No job uses artifacts.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

_NAME = "artifacts"


def has_artifacts() -> bool:
    """Return whether `artifacts/` is there already: it may belong to somebody else."""
    return Path(_NAME).exists()


def artifacts_of(spark: Any) -> Path | None:
    """Return the folder of the session's process; None if this Spark keeps it elsewhere."""
    try:
        package = spark._jvm.org.apache.spark.sql.artifact
        manager = getattr(getattr(package, "ArtifactManager$"), "MODULE$")  # Scala's object
        folder = Path(manager.artifactRootDirectory().toString())
    except Exception:  # internals of Spark, which another version may lack
        return None
    return folder if folder.parent.resolve() == Path(_NAME).resolve() else None


def remove_artifacts(folder: Path, *, keeps_parent: bool) -> None:
    """Remove a folder that is no longer used, and `artifacts/` if nothing else is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    if not keeps_parent:
        with suppress(OSError):  # another job has a folder there
            folder.parent.rmdir()
