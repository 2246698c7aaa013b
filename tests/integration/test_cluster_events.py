"""What the brokers of a cluster note when one of them is killed, comes back, and stops."""

from __future__ import annotations

from pathlib import Path

from kbroker.errors import ErrorCode
from kbroker.events.event import Event
from kbroker.model import TopicPartition
from tests.fakes.running.waiting import until
from tests.integration.local_cluster_client import Cluster, running

BROKERS = 3
PLACES = [TopicPartition("t", number) for number in range(BROKERS)]


def noted(cluster: Cluster, number: int, place: TopicPartition) -> list[Event]:
    return [each.event for each in cluster.server(number).parts.data.events.of_partition(place)]


def last_of(cluster: Cluster, number: int, place: TopicPartition, cause: str) -> Event | None:
    found = [event for event in noted(cluster, number, place) if event.cause == cause]
    return found[-1] if found else None


async def test_each_change_of_leader_and_isr_has_its_cause(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=BROKERS) as cluster:
        assert await cluster.create("t", BROKERS, replicas=BROKERS) is ErrorCode.NONE
        leaders = await cluster.leaders(0, "t")
        controller = cluster.controller
        victim = next(number for number in range(BROKERS) if number != controller)
        led = next(place for place in PLACES if leaders[place.partition] == victim)
        followed = [place for place in PLACES if place != led]
        assert [noted(cluster, controller, place) for place in PLACES] == [[]] * BROKERS

        await cluster.local.kill_broker(victim)
        lost = await until(lambda: last_of(cluster, controller, led, "leader_lost"))
        shrunk = [
            await until(lambda p=place: last_of(cluster, controller, p, "broker_lost"))
            for place in followed
        ]

        assert lost.fields()["leader_before"] == victim
        assert [event.name for event in shrunk] == ["isr_shrunk"] * 2

        await cluster.local.start_broker(victim)
        for place in PLACES:
            leader = (await cluster.leaders(controller, "t"))[place.partition]
            grown = await until(lambda p=place, n=leader: last_of(cluster, n, p, "caught_up"))
            assert grown.name == "isr_expanded"

        await cluster.local.stop_broker(victim)
        for place in PLACES:
            stopped = await until(lambda p=place: last_of(cluster, controller, p, "broker_stops"))
            assert f"broker {victim} is about to stop" in stopped.sentence()
