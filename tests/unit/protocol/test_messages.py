from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise

from kbroker.apis import registry
from kbroker.protocol.schema import response_class
from tests.golden.wire.declared_messages import all_messages

EVERY_KEY = range(95)  # all that Kafka 3.9 and 4.4 know
SERVED_KEYS = [
    *range(52), 56, 57, 58, 60, 61, 65, 66, 67, 68, 69,
    *range(74, 77),
]  # fmt: skip
HEADERS_KNOWN_FROM_THE_START = """
import json
from kbroker.protocol.schema import FIRST_FLEXIBLE
print(json.dumps(FIRST_FLEXIBLE))
"""
WHAT_A_BROKER_IMPORTS = """
import sys
from kbroker.apis import registry
from kbroker.server.broker import kafka_server
dict(registry.registered())
names = (name.rpartition(".")[2] for name in sys.modules if ".protocol.messages." in name)
print(*sorted(names))
"""


def test_messages_come_by_key_each_request_before_its_response() -> None:
    messages = all_messages()

    assert [cls.spec.key for cls in messages[::2]] == list(EVERY_KEY)
    assert [response_class(request) for request in messages[::2]] == messages[1::2]


def test_request_and_response_describe_the_same_versions() -> None:
    messages = all_messages()
    pairs = [pair for pair in pairwise(messages) if pair[0].spec.key == pair[1].spec.key]

    assert [(a.spec.versions, a.spec.flexible) for a, _ in pairs] == [
        (b.spec.versions, b.spec.flexible) for _, b in pairs
    ]


def test_headers_of_requests_that_nothing_declares_are_read_in_their_shape() -> None:
    """A broker names the client that sent one, and what it does not serve."""
    run = subprocess.run(
        [sys.executable, "-c", HEADERS_KNOWN_FROM_THE_START], capture_output=True, check=True
    )
    requests = [cls.spec for cls in all_messages()[::2] if "unserved_messages" in cls.__module__]

    assert len(requests) == 28
    assert json.loads(run.stdout) == {str(spec.key): spec.flexible.lowest for spec in requests}


def test_a_message_is_not_served_for_being_declared() -> None:
    all_messages()

    assert list(registry.registered()) == SERVED_KEYS


def test_a_broker_imports_the_messages_that_it_speaks_and_no_others() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WHAT_A_BROKER_IMPORTS], capture_output=True, text=True, check=True
    )
    imported = set(run.stdout.split())
    spoken_to_controllers = {"alter_partition"}
    served = {
        api.request_class.__module__.rpartition(".")[2] for api in registry.registered().values()
    }

    assert imported - spoken_to_controllers <= served
