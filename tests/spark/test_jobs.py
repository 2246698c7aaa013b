"""The jobs as functions: over the caller's session, with values as results, and nothing printed."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.clients.every_client import create_topic
from kbroker.pipeline import PipelineError, Stream, archive, audit, lag, mirror, restore, rules
from kbroker.pipeline.errors import OptionsError
from tests.docs.pages import blocks, printed, text_of
from tests.fakes.running.forked_broker import Broker


def write_sales(bootstrap: str) -> None:
    """1,600 records, of which a group has read 1,000."""
    create_topic(bootstrap, "sales", 2)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(1_600):
        value = json.dumps({"id": number, "price": 9.5})
        producer.produce("sales", value.encode(), str(number).encode(), number % 2)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    places = [TopicPartition("sales", partition, 500) for partition in (0, 1)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def write_logs(bootstrap: str) -> None:
    """The records that the page of rules begins with."""
    create_topic(bootstrap, "logs", 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(1, 8):
        event = {"time": f"2026-11-20T10:03:0{number}Z", "service": "cart", "level": "ERROR"}
        producer.produce("logs", json.dumps(event | {"id": number}).encode())
    assert producer.flush(30) == 0


def test_the_examples_of_the_page_do_what_they_show_and_print_nothing_else(
    spark: Any,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (code,) = [code for code in blocks("python", text_of("pipeline")) if "rules(" in code]
    (tmp_path / "errors.toml").write_text(blocks("toml", text_of("rules"))[0])
    monkeypatch.chdir(tmp_path)
    write_sales(bootstrap)
    write_logs(bootstrap)
    capfd.readouterr()

    with Broker() as other:
        here_and_there = code.replace("127.0.0.1:9092", bootstrap)
        Path("jobs.py").write_text(here_and_there.replace("127.0.0.1:9093", other.bootstrap))
        runpy.run_path("jobs.py", init_globals={"spark": spark})

    assert capfd.readouterr().out.splitlines() == printed(code)
    assert spark.range(3).count() == 3


def test_what_does_not_go_together_is_refused_with_the_sentence_of_the_command(
    tmp_path: Path,
) -> None:
    place = str(tmp_path)
    with pytest.raises(OptionsError, match="--topics and --pattern exclude each other"):
        archive(Stream(checkpoint=place, data=[place], topics=["a"], pattern="b"), to=place)
    with pytest.raises(OptionsError, match="give one source"):
        archive(Stream(checkpoint=place, topics=["a"]), to=place)
    with pytest.raises(OptionsError, match="the cluster to read from and write to"):
        rules("none.toml", Stream(checkpoint=place))
    with pytest.raises(OptionsError, match="give --data DIR, --archive DIR or --bootstrap"):
        audit()
    with pytest.raises(OptionsError, match="to write into topics, or --data DIR"):
        restore(archive=place, checkpoint=place, bootstrap="h:1", data=place)
    with pytest.raises(OptionsError, match="say which topics"):
        mirror(source="h:1", bootstrap="h:2", checkpoint=place)
    with pytest.raises(PipelineError, match=r"cannot connect to 127\.0\.0\.1:1"):
        lag("127.0.0.1:1")
