"""A home for Spark whose Python processes find pyspark compiled.

Spark puts `python/lib/pyspark.zip` of its home first on the path of every Python process that it
starts. Nothing caches compiled modules of a zip, so each process compiles pyspark again, for 0.6 s:
one process per stream, and one per kind of worker. In a home made here that name is a folder with
the installed package; all else is Spark's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def quick_home(folder: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Make such a home below a folder; None if Spark is not all in this Python's package, if the
    user has named another home, or if the folder takes no links.
    """
    import py4j
    import pyspark

    package = Path(pyspark.__file__).parent
    libraries = package / "python" / "lib"
    zipped = {"pyspark.zip": package}
    zipped |= {each.name: Path(py4j.__file__).parent for each in libraries.glob("py4j-*.zip")}
    if "SPARK_HOME" in environment or not (package / "jars").is_dir() or len(zipped) != 2:
        return None
    home = folder / "spark-home"
    try:
        for name, installed in zipped.items():
            stand_in = home / "python" / "lib" / name
            stand_in.mkdir(parents=True)
            (stand_in / installed.name).symlink_to(installed)
        for own in package.iterdir():
            if own.is_dir() and own.name != "python":
                (home / own.name).symlink_to(own)
    except OSError:
        return None
    return home
