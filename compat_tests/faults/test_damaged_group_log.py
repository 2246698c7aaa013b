"""A running broker on a damaged `__consumer_offsets`: clients find every commit but those in the
damaged batch, and go on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compat_tests.conftest import BrokerProcess
from compat_tests.wire.group_member import Member, commit
from compat_tests.wire.wire_client import OFFSET_FETCH, WireClient, code

GROUPS = [f"group-{number}" for number in range(12)]
DAMAGED = "group-5"


def committed(wire: WireClient, group: str, topic: str) -> tuple[str, int]:
    topics = [{"name": topic, "partition_indexes": [0]}]
    answer = wire.call(OFFSET_FETCH, 7, group_id=group, topics=topics, require_stable=True)
    row = answer.topics[0].partitions[0]
    return code(row.error_code), row.committed_offset


def test_clients_go_on_at_a_broker_whose_group_log_is_damaged(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    broker = own_broker("--override", "offsets.topic.num.partitions=1")
    wire = WireClient(broker.bootstrap)
    wire.wait_for_coordinator("any")
    topic = wire.create_topic()
    assert {commit(wire, group, topic, offset=7) for group in GROUPS} == {"0"}
    wire.close()
    assert broker.stop() == 0
    path = Path(broker.data) / "__consumer_offsets-0" / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[content.index(DAMAGED.encode())] ^= 0x40
    path.write_bytes(content)

    broker.start()

    wire = WireClient(broker.bootstrap)
    wire.wait_for_coordinator("any")
    found = {group: committed(wire, group, topic) for group in GROUPS}
    assert found == {group: ("0", -1 if group == DAMAGED else 7) for group in GROUPS}
    member = Member(wire, DAMAGED).join_and_sync()
    assert member.commit(topic, offset=8) == "0"
    wire.close()
    assert broker.log_text().count("__consumer_offsets-0 was loaded without offsets 5 to 5") == 1
    assert broker.stop() == 0

    broker.start()

    wire = WireClient(broker.bootstrap)
    wire.wait_for_coordinator("any")
    assert committed(wire, DAMAGED, topic) == ("0", 8)
    assert committed(wire, GROUPS[-1], topic) == ("0", 7)
    wire.close()
