"""The three Kafka libraries of Go programs (franz-go, sarama, kafka-go), each through the whole
story of `go/`.
"""

from __future__ import annotations

import pytest

from compat_tests.clients import run
from compat_tests.go_clients import BUILD_TIMEOUT_S, SOURCE, built
from compat_tests.prerequisites import cache_directory


@pytest.mark.timeout(BUILD_TIMEOUT_S)
def test_go_clients_live_their_whole_story(bootstrap: str) -> None:
    program = built(SOURCE, cache_directory() / "go-clients")

    told = run([str(program), bootstrap.partition(",")[0]], timeout_s=100).decode()

    assert sorted(line.split(":")[0] for line in told.splitlines() if "200 topics" in line) == [
        "franz",
        "sarama",
        "segmentio",
    ]
