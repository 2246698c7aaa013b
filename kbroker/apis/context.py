"""The context of a handler: the client, the version of its request, and the services to call.

`Services` is put together once, in `server`; a `RequestContext` is made for every request and holds
nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from kbroker.acl.acl import (
    CLUSTER,
    SUPPORTED_OPERATIONS,
    AclOperation,
    AclResource,
    AclResourceType,
)
from kbroker.admin.config_admin import ConfigAdmin
from kbroker.admin.producer_id_manager import ProducerIdManager
from kbroker.admin.topic_admin import TopicAdmin
from kbroker.apis.authorizer import ALLOW_ALL, Authorizer, Purpose, operation_bits
from kbroker.apis.client_quotas import Quotas
from kbroker.apis.refusal_table import Refused
from kbroker.apis.refused_requests import RefusedRequests
from kbroker.apis.request_parts import NamedTwice
from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.kafka_controller import KafkaController
from kbroker.coordinator.group_coordinator import GroupCoordinator
from kbroker.errors import ErrorCode, KafkaError
from kbroker.memory_room import REQUESTS_BYTES, MemoryRoom, Share
from kbroker.peers.forwarding_manager import ForwardingManager
from kbroker.peers.peers import Peers
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.request import Accepted, ConnectionInfo, NoResponse, Request, Response
from kbroker.protocol.schema import Message
from kbroker.replication.controller_requests.controller_requests import ControlRequests
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.turns import turn
from kbroker.unserved import Unserved

if TYPE_CHECKING:
    from kbroker.admin.acl_admin import AclAdmin  # which few brokers have
    from kbroker.admin.delegation_token_manager import DelegationTokenManager
    from kbroker.apis.audit_log import AuditLog
    from kbroker.apis.request_tracer import RequestTracer
    from kbroker.coordinator.transaction.add_partitions_to_txn_manager import (
        AddPartitionsToTxnManager,
    )
    from kbroker.coordinator.transaction.marker_writer import MarkerWriter
    from kbroker.coordinator.transaction_coordinator import TransactionCoordinator

Result = Response | NoResponse
Later = Awaitable[Result | Accepted[Result]]
AnswerRequest = Callable[[Request], Result | Later]
NameUnserved = Callable[[ConnectionInfo, str | None, Unserved], None]
"""(connection, client id, what): the log tells who asks for what this broker does not serve."""
_NOTHING: frozenset[str] = frozenset()
_NOTHING_TWICE = NamedTwice()


class TransactionalServices(Protocol):
    """The services of transactions, which the first of them may make."""

    @property
    def coordinator(self) -> TransactionCoordinator:
        """Keeps the transactions of the ids that are this broker's."""
        ...

    @property
    def markers(self) -> MarkerWriter:
        """Writes the ends of transactions to the partitions that this broker leads."""
        ...

    @property
    def participation(self) -> AddPartitionsToTxnManager:
        """Asks coordinators whether partitions take part."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Services:
    """The broker's parts that handlers call."""

    replicas: ReplicaManager
    groups: GroupCoordinator
    transactional: TransactionalServices
    metadata: MetadataCache
    topics: TopicAdmin
    configs: ConfigAdmin
    producer_ids: ProducerIdManager
    controller: KafkaController
    control: ControlRequests
    peers: Peers
    forwarding: ForwardingManager
    config: KafkaConfig
    clock: Clock
    authorizer: Authorizer = ALLOW_ALL
    acls: AclAdmin | None = None  # the authorizer's rules; None: there is none that has some
    audit: AuditLog | None = None  # given if there is an authorizer
    tokens: DelegationTokenManager | None = None  # None: nobody could sign any
    quotas: Quotas | None = None
    refusals: RefusedRequests | None = None  # None: the log has none
    tracer: RequestTracer | None = None  # None: nobody follows the requests
    answer: AnswerRequest | None = None  # set by the KafkaApis whose handlers are given these
    name_unserved: NameUnserved = lambda _connection, _client_id, _what: None
    room: MemoryRoom = field(default_factory=partial(MemoryRoom, REQUESTS_BYTES))
    """For large requests in work, and large answers."""

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.transactional.coordinator

    @property
    def markers(self) -> MarkerWriter:
        return self.transactional.markers

    @property
    def participation(self) -> AddPartitionsToTxnManager:
        return self.transactional.participation


class RequestContext:
    """The surroundings of one request."""

    __slots__ = (
        "api_version",
        "began_ns",
        "connection",
        "header",
        "is_of_follower",
        "services",
        "since",
        "waited_ns",
    )

    twice = _NOTHING_TWICE  # beyond what a handler can see itself

    def __init__(
        self,
        header: RequestHeader,
        connection: ConnectionInfo,
        services: Services,
        began_ns: int = 0,
    ) -> None:
        self.began_ns = began_ns  # of the performance counter
        self.waited_ns = 0  # since then, without taking time of the loop
        self.header = header
        self.api_version = header.api_version  # and of the answer
        self.connection = connection
        self.services = services
        self.is_of_follower = False  # a fetch; counted apart
        # The last change before an answer that is to be kept was begun (see `known_answers`).
        self.since: object = None

    def used_ns(self) -> int:
        """The time of the loop that the request has taken so far."""
        return perf_counter_ns() - self.began_ns - self.waited_ns

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def has_logins(self) -> bool:
        """True if clients log in at the listener of this connection."""
        return self.connection.security_protocol.startswith("SASL_")

    async def take(self, size_bytes: int) -> Share:
        """Take memory for an answer of so many bytes; returns when it is there, and when it is this
        answer's turn to begin: hundreds may be let in at once.
        """
        share = self.services.room.share(self.connection)
        await share.take(size_bytes)
        await turn()
        return share

    def unserved(
        self, what: Unserved, code: ErrorCode = ErrorCode.UNSUPPORTED_VERSION
    ) -> KafkaError:
        """The refusal of what this broker does not serve; the log names the client."""
        self.services.name_unserved(self.connection, self.client_id, what)
        return KafkaError(code, str(what))

    def note_refusal(self) -> None:
        """Note that the answer refuses something: it is not kept."""
        self.since = None

    def tell_refusals(self, request: Message, answer: Message) -> None:
        """Log what the answer refuses."""
        if self.services.refusals is not None:
            self.services.refusals.tell(self.header, self.connection, request, answer)

    def tell_entries(self, entries: Iterable[Refused]) -> None:
        """Log what was refused in the answer."""
        if self.services.refusals is not None:
            self.services.refusals.tell_entries(self.header, self.connection, entries)

    def is_authorized(
        self,
        operation: AclOperation,
        resource: AclResource,
        purpose: Purpose = Purpose.TO_DO,
        references: int = 1,
    ) -> bool:
        """Return whether the client may do this to a resource, to which its request refers so many
        times.
        """
        services = self.services
        granted = services.authorizer.authorize(self.connection, operation, resource)
        if services.audit is not None and services.audit.hears(purpose, is_granted=granted):
            self.note_decision(operation, resource, purpose, granted, references)
        return granted

    async def is_authorized_somewhere(
        self, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether the client may do this to at least one resource of a type (KIP-679)."""
        services = self.services
        granted = await services.authorizer.authorize_by_resource_type(
            self.connection, operation, resource_type
        )
        if services.audit is not None and services.audit.hears(Purpose.TO_DO, is_granted=granted):
            resource = AclResource(resource_type, "")
            self.note_decision(operation, resource, Purpose.TO_DO, granted, 0)
        return granted

    def note_decision(
        self,
        operation: AclOperation,
        resource: AclResource,
        purpose: Purpose,
        granted: bool,
        references: int,
    ) -> None:
        """Tell the audit log of a decision."""
        audit = self.services.audit
        if audit is not None:
            audit.note(
                self.connection,
                ApiKey(self.header.api_key).api_name,
                (operation, resource),
                purpose,
                is_granted=granted,
                references=references,
            )

    def may_be_from_broker(self) -> bool:
        """Whether another broker may ask over this connection: with an authorizer one that may do
        ClusterAction, without one whoever comes in by the listener of brokers.
        """
        peers = self.services.peers
        if self.services.authorizer is ALLOW_ALL:
            return peers.are_heard_on(self.connection.listener_name)
        return peers.are_there and self.is_authorized(AclOperation.CLUSTER_ACTION, CLUSTER)

    def refused(
        self,
        operation: AclOperation,
        resource_type: AclResourceType,
        names: Iterable[str],
        purpose: Purpose = Purpose.TO_DO,
    ) -> frozenset[str]:
        """Return the resources, of those named, to which the client may not do this."""
        if self.services.authorizer is ALLOW_ALL:
            return _NOTHING
        return frozenset(
            name
            for name, references in Counter(names).items()
            if not self.is_authorized(
                operation, AclResource(resource_type, name), purpose, references
            )
        )

    def authorized_operations(self, resource: AclResource) -> int:
        """Return the operations that the client may do to a resource, as the bit field of answers;
        none if the client may not see the cluster (KIP-430).
        """
        supported = SUPPORTED_OPERATIONS[resource.type]
        if resource == CLUSTER and not self.is_authorized(AclOperation.DESCRIBE, CLUSTER):
            return 0
        return operation_bits(
            frozenset(
                operation
                for operation in supported
                if self.is_authorized(operation, resource, Purpose.TO_SHOW)
            )
        )


class LargeContext(RequestContext):
    """The context of a request that may have many entries, or a large answer.

    `share` is its share of the memory until it is answered. The answer takes more of the same
    share, as a request that waits for a second one may wait for itself. `twice` holds what the
    request names more than once.
    """

    __slots__ = ("share", "twice")

    def __init__(
        self,
        request: Request,
        services: Services,
        share: Share,
        twice: NamedTwice = _NOTHING_TWICE,
        *,
        began_ns: int = 0,
    ) -> None:
        super().__init__(request.header, request.connection, services, began_ns)
        self.share = share
        self.twice = twice

    async def take(self, size_bytes: int) -> Share:
        """Take so much beside what is taken already."""
        await self.share.take(self.share.size_bytes + size_bytes)
        await turn()
        return self.share
