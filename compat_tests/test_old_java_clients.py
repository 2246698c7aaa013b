"""Java programs with kafka-clients of many ages: one program, compiled once, runs with the jars of
each version.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests import apache_kafka
from compat_tests.java_clients import compiled, run_java

pytestmark = pytest.mark.java

DROPPED_BY_APACHE = "0.11.0.3"  # its DescribeConfigs 0 is not served by Apache Kafka 4
VERSIONS = (DROPPED_BY_APACHE, "2.0.1", "2.8.2", apache_kafka.NEWEST)
FIRST_WITH_ZSTD = (2, 1)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program; compiled against 2.0, and written so that 0.11 can load it."""
    return compiled("Clients.java", "2.0.1", tmp_path_factory.mktemp("java-clients"))


@pytest.mark.parametrize("version", VERSIONS)
def test_java_clients_of_every_age_live_their_whole_story(
    target: str, bootstrap: str, topic: str, classes: Path, version: str
) -> None:
    if target == "kafka" and version == DROPPED_BY_APACHE:
        pytest.skip(f"Apache Kafka {apache_kafka.NEWEST} does not serve clients of {version}")
    zstd = tuple(int(part) for part in version.split(".")[:2]) >= FIRST_WITH_ZSTD
    codecs = "none,gzip,snappy,lz4" + (",zstd" if zstd else "")

    told = run_java(classes, version, "Clients", bootstrap, topic, codecs)

    assert f"{version} is done" in told.decode()
