"""Whether a sender may speak as a broker or as the controller. Pure.

Decided by the listener a request came in by, by its own words about its sender, and by the tree's
words about brokers and controller. Law: the only place of this decision. On a plaintext listener
nobody proves an identity, so the facts that can be checked against the tree are: the listener on
which brokers talk to each other, ids, and epochs. A broker that has no peer trusts nobody. Once
requests are authorized, Kafka's CLUSTER_ACTION on the cluster takes the place of `is_open_to`
(`RequestContext.may_be_from_broker`) and the rest stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from kbroker.errors import ErrorCode
from kbroker.model import UNKNOWN_BROKER_EPOCH, EndPoint
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.declaration import MAX_VERSION, Versions


class Sender(Enum):
    """The kind of sender that a request may come from."""

    ANYBODY = "anybody"
    BROKER = "a broker"
    CONTROLLER = "the controller"


SPEAKERS: Mapping[int, Sender] = MappingProxyType(
    {
        ApiKey.LEADER_AND_ISR: Sender.CONTROLLER,
        ApiKey.STOP_REPLICA: Sender.CONTROLLER,
        ApiKey.UPDATE_METADATA: Sender.CONTROLLER,
        ApiKey.CONTROLLED_SHUTDOWN: Sender.BROKER,
        ApiKey.ALTER_PARTITION: Sender.BROKER,
        ApiKey.ENVELOPE: Sender.BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS: Sender.BROKER,
    }
)
"""By API key; clients, which are anybody, have the rest."""

LAST_OF_CLIENTS: Mapping[int, int] = MappingProxyType({ApiKey.ADD_PARTITIONS_TO_TXN: 3})
"""By API key: the versions above this one are for brokers (KIP-890)."""


def sender_of(key: int, version: int) -> Sender:
    """The kind of sender that may send this version of an API."""
    if version > LAST_OF_CLIENTS.get(key, version):
        return Sender.BROKER
    return SPEAKERS.get(key, Sender.ANYBODY)


def versions_for_clients(key: int, versions: Versions) -> Versions:
    """The versions of an API in which anybody is heard.

    >>> str(versions_for_clients(ApiKey.ADD_PARTITIONS_TO_TXN, Versions(0, 5)))
    '0-3'
    """
    if SPEAKERS.get(key, Sender.ANYBODY) is not Sender.ANYBODY:
        return Versions.parse("none")
    return Versions(versions.lowest, min(versions.highest, LAST_OF_CLIENTS.get(key, MAX_VERSION)))


@dataclass(frozen=True, slots=True)
class ControllerClaim:
    """The controller a request says it comes from, or the one the tree names (None: nobody)."""

    controller_id: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerClaim:
    """The broker a request says it comes from; its epoch is -1 if none is given."""

    broker_id: int
    epoch: int = UNKNOWN_BROKER_EPOCH


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PeerListeners:
    """The listeners on which brokers talk to each other; none if there is no other broker.

    >>> PeerListeners(frozenset({"INSIDE"})).is_open_to("OUTSIDE")
    False
    """

    names: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, end_points: Sequence[EndPoint], inter_broker: str, others: Iterable[str]
    ) -> PeerListeners:
        """The listeners of others: the first end point if none has the configured name; `others`
        are such as the control plane's.
        """
        names = [end_point.listener_name for end_point in end_points]
        wanted = (inter_broker, *others)
        return cls(frozenset(name if name in names else names[0] for name in wanted))

    def is_open_to(self, listener_name: str) -> bool:
        """Whether a request through this listener may come from a broker."""
        return listener_name in self.names


def controller_refusal(claim: ControllerClaim, known: ControllerClaim) -> ErrorCode:
    """The error if orders are not from the controller in the tree, NONE if they are.

    A former controller gets it, and so does a broker that believes itself controller under an epoch
    that the tree does not have (its node was edited by hand): it competes for the seat again.
    """
    if claim == known:
        return ErrorCode.NONE
    was_controller = known.controller_id in (None, claim.controller_id)
    if claim.epoch < known.epoch or was_controller:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def broker_refusal(claim: BrokerClaim, registered_epoch: int | None) -> ErrorCode:
    """The error if a request is not from the broker that the tree has under its id (None: no
    broker); NONE if it may be. Without an epoch, as in old versions, the id is trusted.
    """
    if registered_epoch is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    is_right = claim.epoch in (UNKNOWN_BROKER_EPOCH, registered_epoch)
    return ErrorCode.NONE if is_right else ErrorCode.STALE_BROKER_EPOCH
