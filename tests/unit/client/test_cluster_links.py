"""A link that broke is opened once more, and who asked can tell; an address that nobody gave by hand
is told with who gave it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.client import cluster_links
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import LATEST, ClusterLinks, GivenAddressError
from kbroker.client.consumer_groups import delete_group
from kbroker.client.exit_code import ExitCode
from kbroker.client.link_refusals import refused
from kbroker.errors import ErrorCode, Trouble, trouble_of
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kbroker.protocol.messages.find_coordinator import FindCoordinatorResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse


class Broker:
    """Has the groups of a set; breaks its link after each request that `loses` names."""

    def __init__(self, *groups: str) -> None:
        self.groups = set(groups)
        self.loses: list[str] = []

    def __call__(self, *_: Any) -> Broker:
        return self

    def close(self) -> None:
        pass

    def ask(self, request: Any) -> Any:
        name = type(request).__name__
        answer = self._answer(request)
        if name in self.loses:
            self.loses.remove(name)
            raise ConnectionResetError("it closed the connection")
        return answer

    def _answer(self, request: Any) -> Any:
        if not isinstance(request, DeleteGroupsRequest):
            broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=1)
            is_metadata = type(request).__name__ == "MetadataRequest"
            return (
                MetadataResponse(brokers=[broker])
                if is_metadata
                else FindCoordinatorResponse(node_id=1)
            )
        (name,) = request.groups_names
        code = ErrorCode.NONE if name in self.groups else ErrorCode.GROUP_ID_NOT_FOUND
        self.groups.discard(name)
        result = DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=int(code))
        return DeleteGroupsResponse(results=[result])


@pytest.mark.parametrize(
    ("groups", "loses", "code"),
    [
        (["g"], [], ErrorCode.NONE),
        (["g"], ["DeleteGroupsRequest"], ErrorCode.NONE),
        ([], [], ErrorCode.GROUP_ID_NOT_FOUND),
        ([], ["FindCoordinatorRequest"], ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_group_whose_deletion_was_asked_for_twice_is_deleted(
    groups: list[str], loses: list[str], code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(*groups)
    monkeypatch.setattr(cluster_links, "BrokerLink", broker)
    monkeypatch.setattr(cluster_links, "check_reachable", lambda *_: None)
    links = ClusterLinks("h:1")
    broker.loses = loses

    assert delete_group(links, "g") == code
    assert broker.groups == set()


class Addresses:
    """Brokers by address: a broker that answers, or what comes of opening a link there."""

    def __init__(self, broker: Broker) -> None:
        self.at: dict[tuple[str, int], Broker | Exception] = {("given", 1): broker}

    def __call__(self, host: str, port: int, *_: Any) -> Broker:
        found = self.at[host, port]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (
            ConnectionRefusedError("h:1: Connection refused"),
            GivenAddressError,
            "h:1: Connection refused",
        ),
        (TimeoutError("h:1 gave no answer"), GivenAddressError, "h:1 gave no answer"),
        (refused("h:1", "a web server"), ClientError, "cannot connect to h:1: a web server"),
    ],
)
def test_an_address_that_a_broker_gave_is_told_with_the_broker_that_gave_it(
    error: Exception, kind: type[Exception], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = Addresses(Broker())
    monkeypatch.setattr(cluster_links, "BrokerLink", addresses)
    monkeypatch.setattr(cluster_links, "check_reachable", lambda *_: None)
    links = ClusterLinks("given:1")
    addresses.at["h", 1] = error

    for ask in (lambda: links.ask(1, MetadataRequest()), lambda: links.link(1)):
        with pytest.raises(kind) as raised:
            ask()
        assert str(raised.value) == f"{sentence} (given:1 gives clients this address of broker 1)"
        if kind is ClientError:
            assert trouble_of(raised.value) is Trouble.ADVERTISED_ADDRESS

    assert list(links.silent) == [1]
    addresses.at["h", 1] = Broker()
    links.ask(1, MetadataRequest())
    assert not links.silent, "it answers again"


@pytest.mark.parametrize(
    ("error", "sentence", "code", "trouble"),
    [
        (
            ConnectionResetError("given:1: it closed the connection"),
            "cannot connect to given:1: it closed the connection",
            ExitCode.CANNOT_CONNECT,
            Trouble.CANNOT_CONNECT,
        ),
        (
            TimeoutError("given:1 gave no answer to ApiVersionsRequest"),
            "given:1 did not answer in time: given:1 gave no answer to ApiVersionsRequest",
            ExitCode.TIMEOUT,
            Trouble.NO_ANSWER,
        ),
    ],
)
def test_a_given_address_that_hangs_is_told_from_one_at_which_no_broker_is(
    error: Exception,
    sentence: str,
    code: ExitCode,
    trouble: Trouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses = Addresses(Broker())
    addresses.at["given", 1] = error
    monkeypatch.setattr(cluster_links, "BrokerLink", addresses)
    monkeypatch.setattr(cluster_links, "check_reachable", lambda *_: None)

    with pytest.raises(ClientError) as raised:
        ClusterLinks("given:1")

    assert str(raised.value) == sentence
    assert (raised.value.code, trouble_of(raised.value)) == (code, trouble)


class Member(Broker):
    """One of two brokers; hears of a topic after so many questions, and refuses it until then."""

    def __init__(
        self,
        questions: int | None,
        refusal: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ) -> None:
        super().__init__()
        self._questions = questions
        self._refusal = refusal

    def _answer(self, request: Any) -> Any:
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=node, host="h", port=node)
            for node in (1, 2)
        ]
        topics = []
        for asked in request.topics:
            knows = self._questions == 0
            if self._questions:
                self._questions -= 1
            code = ErrorCode.NONE if knows else self._refusal
            partition = MetadataResponse.MetadataResponsePartition(partition_index=0, leader_id=1)
            topic = MetadataResponse.MetadataResponseTopic(name=asked.name, error_code=int(code))
            topic.partitions = [partition] if knows else []
            topics.append(topic)
        return MetadataResponse(brokers=brokers, controller_id=2, topics=topics)


@pytest.mark.parametrize(("at_controller", "is_found"), [(0, True), (None, False)])
def test_a_topic_of_which_only_the_controller_has_heard_is_waited_for(
    at_controller: int | None, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = Addresses(Member(2 if is_found else None))
    addresses.at["h", 2] = Member(at_controller)
    monkeypatch.setattr(cluster_links, "BrokerLink", addresses)
    monkeypatch.setattr(cluster_links, "check_reachable", lambda *_: None)
    waited: list[float] = []
    links = ClusterLinks("given:1", sleep=waited.append)

    view = links.ready_topic("new")

    assert (view is not None) == is_found
    assert len(waited) == (2 if is_found else 0)


def test_a_topic_that_waits_for_a_broker_to_come_back_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = Member(2, ErrorCode.INVALID_REPLICATION_FACTOR)
    monkeypatch.setattr(cluster_links, "BrokerLink", Addresses(member))
    monkeypatch.setattr(cluster_links, "check_reachable", lambda *_: None)
    waited: list[float] = []

    view = ClusterLinks("given:1", sleep=waited.append).ready_topic("new", creates=True)

    assert view is not None
    assert view.is_ready
    assert len(waited) == 2


def test_too_few_brokers_for_a_topic_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member(None, ErrorCode.INVALID_REPLICATION_FACTOR)
    monkeypatch.setattr(cluster_links, "BrokerLink", Addresses(member))
    monkeypatch.setattr(cluster_links, "check_reachable", lambda *_: None)
    waited: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(waited))
    monkeypatch.setattr(cluster_links, "time", clock)

    with pytest.raises(ClientError) as raised:
        ClusterLinks("given:1", sleep=waited.append).ready_topic("new", creates=True)

    assert 1 < sum(waited) < 60

    assert str(raised.value) == (
        "there is no topic new, and it cannot be made: fewer brokers are there than "
        "default.replication.factor asks for (INVALID_REPLICATION_FACTOR): start more, or make it "
        "with `kbroker topic create new --replication-factor N`"
    )


class Led(Broker):
    """The first of two brokers: leads a partition of which `end` is asked, after so many questions
    about the topic that the other one led.
    """

    def __init__(self, brokers: int, questions: int) -> None:
        super().__init__()
        self._brokers = brokers
        self._questions = questions

    def _answer(self, request: Any) -> Any:
        if not isinstance(request, MetadataRequest):
            partition = ListOffsetsResponse.ListOffsetsPartitionResponse(offset=7)
            topic = ListOffsetsResponse.ListOffsetsTopicResponse(partitions=[partition])
            return ListOffsetsResponse(topics=[topic])
        self._questions -= 1
        leader = 1 if self._questions < 0 else 2
        partition = MetadataResponse.MetadataResponsePartition(partition_index=0, leader_id=leader)
        topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition])
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=node, host="h", port=node)
            for node in range(1, self._brokers + 1)
        ]
        return MetadataResponse(brokers=brokers, topics=[topic])


@pytest.mark.parametrize(
    ("brokers", "waits", "is_told"), [(3, True, True), (3, False, False), (1, True, False)]
)
def test_the_next_leader_is_waited_for_where_others_may_lead(
    brokers: int, waits: bool, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Led(brokers, questions=200)  # twenty seconds: a session of ZooKeeper ends meanwhile
    addresses = Addresses(member)
    addresses.at |= {("h", 1): member, ("h", 2): ConnectionRefusedError("h:2: refused")}
    monkeypatch.setattr(cluster_links, "BrokerLink", addresses)
    monkeypatch.setattr(cluster_links, "check_reachable", lambda *_: None)
    waited: list[float] = []
    monkeypatch.setattr(cluster_links, "time", SimpleNamespace(monotonic=lambda: sum(waited)))
    told: list[tuple[str, int]] = []
    links = ClusterLinks(
        "given:1",
        tell=lambda sentence: told.append((sentence, int(sum(waited)))),
        sleep=waited.append,
    )

    def ends() -> dict[int, int]:
        return links.offsets(links.topic("t"), [0], LATEST, awaits_successor=waits)

    if is_told:
        assert ends() == {0: 7}
    else:
        with pytest.raises(ConnectionRefusedError):
            ends()
        assert sum(waited) < 6
    ((sentence, second),) = told
    who = "h:2: refused" if brokers > 1 else "broker 2 is not there"
    assert sentence.startswith(f"the offsets of t cannot be had now: {who}")
    assert sentence.endswith("; waiting")
    assert second == 1
