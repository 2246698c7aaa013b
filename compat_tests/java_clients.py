"""kafka-clients of any version: the jars, fetched with Maven, and programs compiled against them."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

from compat_tests import apache_kafka
from compat_tests.apache_kafka import NotAvailableError, cache_directory
from compat_tests.clients import require_program, run

SOURCES = Path(__file__).parent / "java"

_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>kbroker</groupId><artifactId>kafka-clients</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>{v}</version></dependency>
</dependencies></project>
"""


def jars(version: str) -> Path:
    """The folder with kafka-clients of that version and what it needs, fetched on first use."""
    if version == apache_kafka.NEWEST:
        return apache_kafka.jars(version)
    mvn = require_program("mvn", "install Maven to fetch kafka-clients")
    folder = cache_directory() / f"kafka-clients-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            (folder / "pom.xml").write_text(_POM.format(v=version))
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
            done = subprocess.run(
                [mvn, "-q", "-B", *goal], cwd=folder, capture_output=True, timeout=100, check=False
            )
            if done.returncode != 0:
                raise NotAvailableError(
                    f"Maven could not fetch kafka-clients {version}: {done.stdout.decode()[-300:]}"
                )
            (folder / ".complete").touch()
    return folder


def compiled(source: str, version: str, folder: Path) -> Path:
    """The folder with the classes of a program, compiled against kafka-clients of a version."""
    javac = require_program("javac", "install a Java 17 or 21 development kit")
    options = ["-nowarn", "-Xlint:none", "--release", "8", "-d", str(folder)]
    run([javac, *options, "-cp", f"{jars(version)}/*", str(SOURCES / source)])
    return folder


def run_java(
    classes: Path, version: str, main_class: str, *args: str, timeout_s: float = 80
) -> bytes:
    """Run a compiled program with kafka-clients of a version; its standard output."""
    java = require_program("java", "install a Java 17 or 21 runtime")
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    class_path = f"{classes}:{jars(version)}/*"
    return run([java, *flags, "-cp", class_path, main_class, *args], timeout_s=timeout_s)
