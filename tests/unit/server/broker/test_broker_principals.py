"""A function of a user that names clients ends a connection at worst, whatever it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ProtocolError
from kbroker.server.broker.broker_principals import BrokerPrincipals
from tests.fakes.requests.recording_replier import local_connection

BUILDERS = """
import sys
class Unprintable:
    def __str__(self): raise RuntimeError
def ends(client): sys.exit(1)
def gives_no_text(client): return Unprintable()
def gives_no_name(client): return "User:"
def right(client): return "User:" + client.address
"""


def test_a_builder_that_ends_or_gives_no_principal_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_builders.py").write_text(BUILDERS)
    monkeypatch.syspath_prepend(tmp_path)

    def principal(builder: str) -> str:
        config = KafkaConfig({"principal.builder.class": f"my_builders:{builder}"})
        connection = local_connection()
        BrokerPrincipals(config, "PLAINTEXT").settle(connection)
        return connection.principal

    for builder in ("ends", "gives_no_text", "gives_no_name"):
        with pytest.raises(ProtocolError, match=r"principal\.builder\.class"):
            principal(builder)
    assert principal("right") == f"User:{local_connection().peer_host}"
