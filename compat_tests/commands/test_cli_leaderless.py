"""What commands that list say while a part of the brokers' own topics has no leader."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Producer

from compat_tests.commands.command_line import FINE, ITEM_FAILED, Run, run
from compat_tests.conftest import BrokerProcess

WAIT_S = 30.0
MORE = "See kbroker help no-leader"


@pytest.fixture
def half(own_broker: Callable[..., BrokerProcess]) -> Run:
    """Runs a command against two brokers of three: the other one is away with a part of the groups
    and of the transactional ids.
    """
    brokers = own_broker("--brokers", "3")
    run("topic", "create", "made", bootstrap=brokers.bootstrap)
    run("produce", "made", stdin="1\n", bootstrap=brokers.bootstrap)
    read = run("consume", "made", "--group", "readers", bootstrap=brokers.bootstrap)
    assert read.lines() == ["1"]
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "transactional.id": "billing"})
    producer.init_transactions(WAIT_S)
    del producer
    brokers.stop()
    brokers.options = ("--brokers", "2")
    brokers.start()
    return partial(run, bootstrap=brokers.bootstrap)


def test_a_list_that_may_lack_names_says_so(half: Run) -> None:
    for command, name, topic, noun in (
        ("group", "readers", "__consumer_offsets", "groups"),
        ("txn", "billing", "__transaction_state", "transactional ids"),
    ):
        listed = half(command, "list", "--output", "jsonl")
        is_there = half(command, "describe", name).code == FINE

        *_, sentence, more = listed.err.splitlines()
        assert listed.code == ITEM_FAILED
        assert sentence.startswith(f"Error: {topic}-")
        assert sentence.endswith(f"no leader: nobody knows the {noun} that are kept there")
        assert more == MORE
        assert f"no {noun}: " not in listed.err
        assert (name in listed.out) == is_there
