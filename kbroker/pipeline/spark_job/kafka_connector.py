"""Spark's Kafka connector, which pyspark does not bring: fetched from a Maven registry by Spark at
the start of a session, fetched by an earlier session, or given as jars.

Its version has to be pyspark's. Four jars are enough: the connector, its token provider,
kafka-clients and commons-pool2; the rest is in pyspark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.spark_job.ivy_cache import cached_jars

TESTED_LINES = ("4.0", "4.2")  # of pyspark; the extra installs the first
PACKAGES = "spark.jars.packages"  # what Spark fetches at its start
_ORGANISATION = "org.apache.spark"
ARTIFACT = "spark-sql-kafka-0-10_2.13"
_PROVIDER_ARTIFACT = "spark-token-provider-kafka-0-10_2.13"
_NEEDED = frozenset({_PROVIDER_ARTIFACT, "kafka-clients", "commons-pool2"})
PROVIDER_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_JARS = (
    "give its four jars (spark-sql-kafka-0-10_2.13, spark-token-provider-kafka-0-10_2.13, "
    "kafka-clients, commons-pool2) with --jars FOLDER"
)
_INSTALL = "pip install 'kbroker[spark]'"
# [NOT FOUND  ] org.apache.kafka#kafka-clients;3.9.0!kafka-clients.jar (1ms)
_NO_JAR = re.compile(r"(?:NOT FOUND *\]|download failed:) *([\w.-]+)#([\w.-]+);([\w.-]+)!")
# :: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found
_UNRESOLVED = re.compile(r":: ([\w.-]+)#([\w.-]+);([\w.-]+): (.+)")
NO_CONNECTOR = f"Spark has no Kafka connector: {_JARS}, or start the session with a registry"


def coordinate(pyspark_version: str) -> str:
    """Return the Maven coordinate of the connector for that pyspark."""
    return f"{_ORGANISATION}:{ARTIFACT}:{pyspark_version}"


def untested(pyspark_version: str) -> str | None:
    """Return a warning for a pyspark that no test of kbroker has run with; else None."""
    if any(pyspark_version.startswith(f"{line}.") for line in TESTED_LINES):
        return None
    tested = " and ".join(TESTED_LINES)
    return f"pyspark {pyspark_version} is not tested with kbroker, {tested} are: {_INSTALL}"


def jar_files(jars: Sequence[str]) -> list[str]:
    """Return the paths of jars; a folder stands for all jars in it."""
    found: list[str] = []
    for name in jars:
        path = Path(name)
        if path.is_dir():
            inside = sorted(str(file.resolve()) for file in path.glob("*.jar"))
            if not inside:
                raise PipelineError(f"--jars {name}: no *.jar in this folder", ExitCode.USAGE)
            found += inside
        elif path.is_file():
            found.append(str(path.resolve()))
        else:
            raise PipelineError(f"--jars {name}: no such file or folder", ExitCode.USAGE)
    return found


def connector_settings(
    pyspark_version: str, jars: Sequence[str], needs_connector: bool, cache: Path | None = None
) -> dict[str, str]:
    """Return `spark.jars` and, if the connector is still missing, `spark.jars.packages`."""
    files = jar_files(jars)
    settings = {"spark.jars": ",".join(files)} if files else {}
    names = [Path(file).name for file in files]
    connectors = [name for name in names if ARTIFACT in name]
    if connectors and not any(f"-{pyspark_version}." in name for name in connectors):
        raise PipelineError(
            f"--jars has {connectors[0]}, and pyspark here is {pyspark_version}: the connector has "
            "to be of the same version",
            ExitCode.USAGE,
        )
    if needs_connector and not connectors:
        has_provider = any(_PROVIDER_ARTIFACT in name for name in names)
        settings |= _fetched(pyspark_version, files, has_provider, cache)
    return settings


def _fetched(
    pyspark_version: str, files: Sequence[str], has_provider: bool, cache: Path | None
) -> dict[str, str]:
    """Return the connector from Ivy's cache, or by its name in a registry."""
    if cache is not None:
        needed = _NEEDED - {_PROVIDER_ARTIFACT} if has_provider else _NEEDED
        cached = cached_jars(cache, (_ORGANISATION, ARTIFACT, pyspark_version), needed)
        if cached is not None:
            return {"spark.jars": ",".join([*files, *cached])}
    settings = {PACKAGES: coordinate(pyspark_version)}
    if has_provider:
        # Some registries lack it, and a jar of another version does as well.
        settings["spark.jars.excludes"] = f"{_ORGANISATION}:{_PROVIDER_ARTIFACT}"
    return settings


def sentence_of_ivy(output: str) -> str | None:
    """Say why the connector could not be fetched, from Spark's output; None if it was."""
    without_jar = sorted({found.groups() for found in _NO_JAR.finditer(output)})
    if without_jar:
        names = ", ".join(":".join(each) for each in without_jar)
        folders = " and ".join(_cache_folders(*without_jar[0]))
        return (
            f"the jar of {names} was not found, while a local Maven cache has its description: "
            f"remove {folders} and try again, or {_JARS}"
        )
    unresolved = sorted({found.groups() for found in _UNRESOLVED.finditer(output)})
    if unresolved:
        names = ", ".join(":".join(each[:3]) for each in unresolved)
        return (
            f"Spark could not fetch {names} from a Maven registry. If this machine is offline, "
            f"{_JARS}; if the registry has no connector of this version, {_INSTALL} installs a "
            "pyspark that has one"
        )
    return None


def _cache_folders(organisation: str, module: str, revision: str) -> tuple[str, str]:
    path = organisation.replace(".", "/")
    return (
        f"~/.m2/repository/{path}/{module}/{revision}",
        f"~/.ivy2.5.2/cache/{organisation}/{module}",
    )
