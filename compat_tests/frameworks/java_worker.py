"""Command lines of Java programs with the jars of a framework."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from compat_tests.clients.java_clients import compile_java
from compat_tests.running import apache_kafka
from compat_tests.running.class_archive import SHORT_LIVED
from compat_tests.running.prerequisites import maven_jars, require_program

SOURCES = Path(__file__).parent / "java"
LOGGER = "org.slf4j:slf4j-simple"
FLAGS = (
    "-Xmx512m",
    *SHORT_LIVED,
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
KAFKA_VERSIONS = (apache_kafka.NEWEST, apache_kafka.ZOOKEEPER_LINE)


def program_command(
    program: str, jars: Path, folder: Path, *args: str, properties: Mapping[str, str] | None = None
) -> list[str]:
    """Compile one of our programs into a folder, and run it."""
    compile_java([SOURCES / f"{program}.java"], jars, folder, release=17)
    system = [f"-D{name}={value}" for name, value in (properties or {}).items()]
    return [_java(), *FLAGS, *system, "-cp", f"{folder}:{jars}/*", program, *args]


def connect_command(version: str, program: str, *files: str) -> list[str]:
    """Run a program of Kafka Connect, with the connectors that Apache Kafka has, on properties files."""
    parts = ("connect-runtime", "connect-file", "connect-mirror")
    apache = (f"org.apache.kafka:{part}:{version}" for part in parts)
    jars = maven_jars(f"kafka-connect-{version}", *apache, f"{LOGGER}:1.7.36")
    main_class = f"org.apache.kafka.connect.{program}"
    return [_java(), *FLAGS, "-cp", f"{jars}/*", main_class, *files]


def properties_file(path: Path, settings: Mapping[str, object]) -> str:
    """Write a properties file; its path as a program takes it."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def _java() -> str:
    return require_program("java", "install a Java 17 or 21 runtime")
