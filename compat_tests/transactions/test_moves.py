"""Data directories go from Apache Kafka to kbroker and back while transactions are open: those who
began them end them at the other broker, and nobody sees what was not committed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from compat_tests.running.moved_directories import adopting_broker, started_apache
from compat_tests.transactions.runner import Player, warm_up
from compat_tests.transactions.script import parse_step, read_answers

# p, q and r have open transactions, s has ended one of each kind.
BEFORE = """init p
init q
init r
init s
add s t:0
produce s t:0
end s commit
add s t:0
produce s t:0
end s abort
add p t:0 t:1
produce p t:0 count=2
add-offsets p g
commit p g t:0=7
add q t:0
produce q t:0
add r t:1
produce r t:1
"""
AT_THE_OTHER = """## ends
list
  -> OK unknown_state_filters=[] [p producer_id=p state=Ongoing; q producer_id=q state=Ongoing; r producer_id=r state=Ongoing; s producer_id=s state=CompleteAbort]
describe p
  -> [OK p state=Ongoing transaction_timeout=60000 began=set producer_id=p epoch=0 [t [0; 1]; offsets]]
fetch t:0 committed
  -> OK [t [0 OK hw=7 lso=4 log_start=0 aborted=[producer_id=s first_offset=2] records=[0-0 s epoch=0 sequence=0 transactional; 1 COMMIT s epoch=0; 2-2 s epoch=0 sequence=1 transactional; 3 ABORT s epoch=0]]]
offset-fetch g t:0 stable
  -> [t [0 committed_offset=-1 UNSTABLE_OFFSET_COMMIT]] OK
produce p t:1
  -> [t [index=1 OK base_offset=1 log_append_time=None log_start=0]]
produce p t:0 sequence=0 count=2
  -> [t [index=0 OK base_offset=4 log_append_time=set log_start=0]]
end p commit
  -> OK
offset-fetch g t:0 stable
  -> [t [0 committed_offset=7 OK]] OK
fetch t:0 committed from=4
  -> OK [t [0 OK hw=8 lso=6 log_start=0 aborted=[] records=[4-5 p epoch=0 sequence=0 transactional]]]
init q2 named=q
  -> OK producer_id=q epoch=2
end q commit
  -> PRODUCER_FENCED
fetch t:0 committed from=6
  -> OK [t [0 OK hw=9 lso=9 log_start=0 aborted=[producer_id=q first_offset=6] records=[6-6 q epoch=0 sequence=0 transactional; 7 COMMIT p epoch=0; 8 ABORT q epoch=1]]]
end r abort
  -> OK
fetch t:1 committed
  -> OK [t [1 OK hw=4 lso=4 log_start=0 aborted=[producer_id=r first_offset=0] records=[0-0 r epoch=0 sequence=0 transactional; 1-1 p epoch=0 sequence=0 transactional; 2 COMMIT p epoch=0; 3 ABORT r epoch=0]]]
add s t:0
  -> [t [0 OK]]
produce s t:0
  -> [t [index=0 OK base_offset=9 log_append_time=None log_start=0]]
"""


def expected(text: str) -> list[tuple[str, str]]:
    """The steps of a text with their answers."""
    (steps,) = read_answers(text).values()
    return list(steps)


def play(player: Player, text: str) -> list[tuple[str, str]]:
    """Play the steps of a text, whatever answers stand between them."""
    lines = [line for line in text.splitlines() if line and not line.startswith(("## ", "  -> "))]
    return [(line, player.play(parse_step(line))) for line in lines]


@pytest.fixture(params=[ZOOKEEPER_LINE, NEWEST])
def apache(request: pytest.FixtureRequest, target: str, tmp_path: Path) -> Iterator[ApacheBroker]:
    """Apache Kafka over an empty directory, started."""
    if target != "kbroker":
        pytest.skip("starts brokers of its own")
    with started_apache(request.param, tmp_path / "kafka" / "data") as broker:
        warm_up(broker.bootstrap)
        yield broker


@pytest.fixture
def adopting(tmp_path: Path) -> Iterator[BrokerProcess]:
    """kbroker over Apache Kafka's directory, not started yet."""
    with adopting_broker(tmp_path / "kafka" / "data") as broker:
        yield broker


@pytest.mark.java
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_transactions_of_kafka_end_at_kbroker(
    apache: ApacheBroker, adopting: BrokerProcess, how: signal.Signals
) -> None:
    player = Player(apache.bootstrap, "moved.")
    play(player, BEFORE)
    apache.stop(how)
    adopting.start()
    warm_up(adopting.bootstrap)

    player.move(adopting.bootstrap)

    assert play(player, AT_THE_OTHER) == expected(AT_THE_OTHER)
    player.close()
    assert adopting.stop() == 0
    assert "Traceback" not in adopting.log_text()


@pytest.mark.java
def test_transactions_of_kbroker_end_at_kafka(
    apache: ApacheBroker, adopting: BrokerProcess
) -> None:
    player = Player(apache.bootstrap, "moved.")
    play(player, "topic t")  # Apache Kafka keeps its own list of topics
    apache.stop()
    adopting.start()
    warm_up(adopting.bootstrap)
    player.move(adopting.bootstrap)
    play(player, BEFORE)
    assert adopting.stop() == 0
    apache.start()
    warm_up(apache.bootstrap)

    player.move(apache.bootstrap)

    assert play(player, AT_THE_OTHER) == expected(AT_THE_OTHER)
    player.close()
    # Its ZooKeeper knows nothing of the leader epochs that kbroker gave.
    told = [line for line in apache.complaints() if "New epoch entry" not in line]
    assert [line for line in told if "transaction" in line.lower()] == []
