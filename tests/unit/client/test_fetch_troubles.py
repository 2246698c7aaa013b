"""What is said of topics that cannot be read, and when."""

from __future__ import annotations

from kbroker.client.fetch_troubles import Troubles
from kbroker.model import TopicPartition

GONE = "127.0.0.1:9092: Connection refused"


def places(*topics: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in topics for number in range(2)]


def end(troubles: Troubles, *topics: str) -> None:
    for place in places(*topics):
        troubles.end(place)


def test_an_election_is_no_news() -> None:
    said: list[str] = []
    troubles = Troubles(said.append)

    troubles.add(places("t"), "t-0 has no leader", now_s=10)
    troubles.say(now_s=10.5)
    end(troubles, "t")
    troubles.say_what_is_back()

    assert (said, bool(troubles)) == ([], False)


def test_what_lasts_is_said_once_and_its_end_too() -> None:
    said: list[str] = []
    troubles = Troubles(said.append)

    troubles.add(places("t"), GONE, now_s=10)
    for now_s in (11.5, 12, 13):
        troubles.say(now_s)
        troubles.say_what_is_back()
    end(troubles, "t")
    troubles.say_what_is_back()
    troubles.say_what_is_back()

    assert said == [f"{GONE}; waiting", "t can be read again"]


def test_topics_with_the_same_trouble_share_a_sentence() -> None:
    said: list[str] = []
    troubles = Troubles(said.append)

    troubles.add(places("a", "b", "c", "d", "e"), GONE, now_s=10)
    troubles.say(now_s=12)
    end(troubles, "a", "b", "c", "d", "e")
    troubles.say_what_is_back()

    assert said == [f"{GONE}; waiting", "a, b, c and 2 more topics can be read again"]


def test_a_topic_is_back_with_its_last_partition() -> None:
    troubles = Troubles(lambda _: None)
    troubles.add(places("t"), GONE, now_s=10)

    troubles.end(TopicPartition("t", 0))
    assert troubles.topics() == ["t"]

    troubles.end(TopicPartition("t", 1))
    assert troubles.topics() == []


def test_the_better_reason_is_said() -> None:
    said: list[str] = []
    troubles = Troubles(said.append)

    troubles.add(places("t"), "t-0: UNKNOWN_TOPIC_OR_PARTITION", now_s=10)
    troubles.explain("t", "the topic t was deleted")
    troubles.explain("u", "nobody asked")
    troubles.say(now_s=12)

    assert said == ["the topic t was deleted; waiting"]


def test_the_oldest_trouble_is_the_one_that_ends_it() -> None:
    troubles = Troubles(lambda _: None)
    troubles.add(places("a"), "first", now_s=10)
    troubles.add(places("b"), "second", now_s=15)

    assert troubles.longest(now_s=20) == ("first", 10)
