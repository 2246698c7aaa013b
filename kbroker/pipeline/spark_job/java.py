"""Finds the Java that Spark will start, and checks that this pyspark runs on it.

Spark 4 needs Java 17 at least. Hadoop's client asks for the security manager, which Java 24
removed; Spark 4.2 does without.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from kbroker.errors import Trouble
from kbroker.pipeline.errors import PipelineError

OLDEST = 17
_NEWEST_WITH_SECURITY_MANAGER = 23
_FIRST_WITHOUT_IT = (4, 2)
_GOOD = "Java 17 or 21 (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java(
    pyspark_version: str,
    environment: Mapping[str, str] = os.environ,
    version_text: Callable[[str], str] | None = None,
) -> None:
    """Raise PipelineError if Spark would find no Java, or one it cannot run on."""
    command = _java_command(environment)
    found = _VERSION.search((version_text or _version_text)(command))
    if found is None:
        raise _refusal(f"{command} does not say which Java it is: Spark needs {_GOOD}")
    version = int(found.group(1))
    if version < OLDEST:
        raise _refusal(f"{command} is Java {version}, too old for Spark: it needs {_GOOD}")
    spark = tuple(int(part) for part in re.findall(r"\d+", pyspark_version)[:2])
    if version > _NEWEST_WITH_SECURITY_MANAGER and spark < _FIRST_WITHOUT_IT:
        raise _refusal(
            f"{command} is Java {version}, too new for pyspark {pyspark_version}: it needs "
            f"{_GOOD}; set JAVA_HOME, or install pyspark 4.2 or newer"
        )


def _java_command(environment: Mapping[str, str]) -> str:
    """Return the Java that Spark's own start script takes: JAVA_HOME first, then PATH."""
    home = environment.get("JAVA_HOME")
    if home:
        command = str(Path(home) / "bin" / "java")
        if not os.access(command, os.X_OK):
            raise _refusal(
                f"JAVA_HOME is {home}, and there is no bin/java in it: Spark needs {_GOOD}"
            )
        return command
    found = shutil.which("java", path=environment.get("PATH"))
    if found is None:
        raise _refusal(f"no java on PATH: Spark needs {_GOOD}")
    return found


def _version_text(command: str) -> str:
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refusal(f"{command} cannot be started: {error}") from error
    return done.stderr + done.stdout


def _refusal(sentence: str) -> PipelineError:
    return PipelineError(sentence, trouble=Trouble.SPARK)
