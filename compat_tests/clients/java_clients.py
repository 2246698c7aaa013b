"""kafka-clients of any version: the jars, fetched with Maven, and programs compiled against them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from compat_tests.clients.every_client import run
from compat_tests.running import apache_kafka
from compat_tests.running.class_archive import SHORT_LIVED
from compat_tests.running.prerequisites import cached_folder, maven_jars, require_program

SOURCES = Path(__file__).parents[1] / "java"
_WITH_TOOLS = (apache_kafka.NEWEST, apache_kafka.ZOOKEEPER_LINE)


def jars(version: str) -> Path:
    """The folder with kafka-clients of that version and what it needs, fetched on first use."""
    if version in _WITH_TOOLS:
        return apache_kafka.jars(version)
    return maven_jars(f"kafka-clients-{version}", f"org.apache.kafka:kafka-clients:{version}")


def compile_java(sources: list[Path], jars: Path, folder: Path, release: int) -> None:
    """Compile programs against jars; their classes, for a release of Java, go into the folder."""
    javac = require_program("javac", "install a Java 17 or 21 development kit")
    options = [*(f"-J{option}" for option in SHORT_LIVED), "-nowarn", "-Xlint:none", "-proc:none"]
    options += ["--release", str(release), "-d", str(folder)]
    run([javac, *options, "-cp", f"{jars}/*", *map(str, sources)])


def kept_classes(program: str, version: str, *parts: str) -> Path:
    """The folder with the classes of a program here, and of its parts, compiled against kafka-clients of
    a version; they are made if a source has changed.
    """
    sources = [SOURCES / f"{name}.java" for name in (program, *parts)]
    known_by = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:12]
    return cached_folder(
        f"{program.lower()}-{version}-{known_by}",
        lambda folder: compile_java(sources, jars(version), folder, release=11),
    )


def java_command(classes: Path, version: str, main_class: str, *args: str) -> list[str]:
    """The command line of a compiled program with kafka-clients of a version. The jars come first:
    those that Apache Kafka's own tools have as well come out of the archive of their classes.
    """
    java = require_program("java", "install a Java 17 or 21 runtime")
    options = ["-Xmx256m", *SHORT_LIVED]
    if version in _WITH_TOOLS:
        options += apache_kafka.class_archive(main_class, version).using()
    return [java, *options, "-cp", f"{jars(version)}/*:{classes}", main_class, *args]


def run_java(
    classes: Path, version: str, main_class: str, *args: str, timeout_s: float = 80
) -> bytes:
    """Run a compiled program with kafka-clients of a version; its standard output."""
    return run(java_command(classes, version, main_class, *args), timeout_s=timeout_s)
