"""Rules over topics of a cluster that lets in only clients with a certificate."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.conftest import BrokerProcess
from compat_tests.running.tls_door import TlsDoor, file_of_client, made_certificate
from kbroker.cli.command_line import cli

RULES = """
name = "calls"

[inputs.calls]
topics = ["calls"]
schema = "at BIGINT NOT NULL, user STRING, code STRING"
time = "at"
watermark = "1s"

[tables.codes]
topic = "codes"
schema = "code STRING, region STRING"

[rules.regions]
from = "calls"
join = "JOIN codes USING (code)"
window = "10s"
by = "region"
select = { calls = "count(*)" }
to = "regions"
"""


@pytest.fixture
def door(tmp_path: Path) -> Iterator[TlsDoor]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl makes the certificate")
    with TlsDoor(made_certificate(tmp_path, "ours", "IP:127.0.0.1")) as made:
        advertise = f"kbroker.advertise={made.address}"
        broker = BrokerProcess(tmp_path / "broker" / "data", ("--override", advertise))
        broker.start()
        made.port_behind = broker.port
        yield made
        broker.stop()


def run(door: TlsDoor, *words: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", "rules", *words, "--bootstrap", door.address])


def test_rules_read_join_and_write_topics_behind_tls(
    kafka_connector: str, door: TlsDoor, tmp_path: Path
) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    ours = file_of_client(tmp_path / "ours.conf", tmp_path / "ours.pem")
    others = file_of_client(
        tmp_path / "others.conf", made_certificate(tmp_path, "other", "IP:127.0.0.1")
    )
    client = dict(line.split("=", 1) for line in ours.read_text().splitlines())
    client["bootstrap.servers"] = door.address
    producer = Producer(client)
    for code, region in (("1", "north"), ("2", "south")):
        producer.produce("codes", json.dumps({"code": code, "region": region}), code)
    for code in ("1", "2", "1"):
        call = {"at": time.time_ns() // 1_000_000, "user": "ann", "code": code}
        producer.produce("calls", json.dumps(call))
    assert producer.flush(30) == 0

    words = (str(tmp_path / "rules.toml"), "--checkpoint", str(tmp_path / "c"), "--once")
    done = run(door, *words, "--close-windows", "--command-config", str(ours))
    assert done.exit_code == 0, done.output
    assert "rows: 3 accepted" in done.output
    consumer = Consumer({**client, "group.id": "g"})
    consumer.assign([TopicPartition("regions", 0, 0)])
    rows = [json.loads(message.value()) for message in consumer.consume(2, 30)]
    consumer.close()
    assert sorted((row["region"], row["calls"]) for row in rows) == [("north", 2), ("south", 1)]

    refused = run(door, *words, "--command-config", str(others))
    assert refused.output.startswith(f"Error: cannot connect to {door.address}: the broker's cert")
    assert "is signed by nobody trusted here" in refused.output
