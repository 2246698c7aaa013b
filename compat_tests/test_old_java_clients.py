"""Java programs with kafka-clients of many ages: one program, compiled once, runs with the jars of
each version.
"""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest

from compat_tests import apache_kafka
from compat_tests.apache_kafka import NotAvailableError, cache_directory
from compat_tests.clients import require_program, run

pytestmark = pytest.mark.java

SOURCE = Path(__file__).parent / "java" / "Clients.java"
DROPPED_BY_APACHE = "0.11.0.3"  # its DescribeConfigs 0 is not served by Apache Kafka 4
VERSIONS = (DROPPED_BY_APACHE, "2.0.1", "2.8.2", apache_kafka.NEWEST)
FIRST_WITH_ZSTD = (2, 1)

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


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program; compiled against 2.0, and written so that 0.11 can load it."""
    javac = require_program("javac", "install a Java 17 or 21 development kit")
    folder = tmp_path_factory.mktemp("java-clients")
    class_path = f"{jars('2.0.1')}/*"
    options = ["-nowarn", "-Xlint:none", "--release", "8", "-d", str(folder), "-cp", class_path]
    run([javac, *options, str(SOURCE)])
    return folder


@pytest.mark.parametrize("version", VERSIONS)
def test_java_clients_of_every_age_live_their_whole_story(
    target: str, bootstrap: str, topic: str, classes: Path, version: str
) -> None:
    if target == "kafka" and version == DROPPED_BY_APACHE:
        pytest.skip(f"Apache Kafka {apache_kafka.NEWEST} does not serve clients of {version}")
    java = require_program("java", "install a Java 17 or 21 runtime")
    zstd = tuple(int(part) for part in version.split(".")[:2]) >= FIRST_WITH_ZSTD
    codecs = "none,gzip,snappy,lz4" + (",zstd" if zstd else "")
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    class_path = f"{classes}:{jars(version)}/*"

    told = run([java, *flags, "-cp", class_path, "Clients", bootstrap, topic, codecs], timeout_s=80)

    assert f"{version} is done" in told.decode()
