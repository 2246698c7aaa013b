"""Jars of Spark's Kafka connector that an earlier session fetched.

Spark asks Ivy again at each start, which takes seconds and always gives what is in the cache: a
release does not change. Below `<organisation>/<module>/` Ivy keeps the dependencies of a release as
`ivy-<revision>.xml` and its jar as `jars/<module>-<revision>.jar`.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

# If one of these is set, a Spark of the user's own, or its settings, may name jars.
_OWN_SPARK = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME")
_LOCK_FILE = "kbroker.lock"
_DEPENDENCY = re.compile(r'<dependency org="([^"]+)" name="([^"]+)" rev="([^"]+)"')


def ivy_cache(conf: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the cache that Spark's Ivy uses; None if the user has configured where Spark finds its
    jars, so that Spark asks for them as configured.
    """
    tells = any(name.startswith("spark.jars") for name in conf)
    if tells or any(name in environment for name in _OWN_SPARK):
        return None
    try:
        return Path.home() / ".ivy2.5.2" / "cache"  # of Spark 4
    except RuntimeError:
        return None  # a user without a home, as some containers have


@contextmanager
def filled_alone(cache: Path) -> Iterator[None]:
    """Wait for other jobs that fill the cache, and keep them out meanwhile: Ivy takes what another
    process has half written for complete. If nothing can be locked, nobody waits.
    """
    descriptor = None
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(cache.parent / _LOCK_FILE, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def cached_jars(
    cache: Path, module: tuple[str, str, str], needed: frozenset[str]
) -> list[str] | None:
    """Return the jars of a module (organisation, name, revision) and of its dependencies whose
    names are in `needed`; None if one of them is missing.
    """
    organisation, name, revision = module
    try:
        description = (cache / organisation / name / f"ivy-{revision}.xml").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    found = [each for each in _DEPENDENCY.findall(description) if each[1] in needed]
    if sorted(each[1] for each in found) != sorted(needed):
        return None
    jars = [cache / of / name / "jars" / f"{name}-{rev}.jar" for of, name, rev in [module, *found]]
    return [str(jar) for jar in jars] if all(jar.is_file() for jar in jars) else None
