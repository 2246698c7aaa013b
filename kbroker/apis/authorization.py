"""The stage before a handler that checks whether a client is authorized.

A registration names its needs. One for the request refuses it as a whole; one for each entry takes
out what is refused, and its entries of the answer follow those of the handler, in the shape of the
API. Kafka does so for most; it answers CreateTopics and DeleteTopics in the order of the request,
and has what is refused first in OffsetCommit and DescribeGroups. Nothing depends on it: clients
find answers by name. One for the answer takes out of it what the client may not see. If none fits,
the handler asks itself, and the need says for what: not in a request that may be passed on, as a
controller of Apache Kafka obeys this broker.

A shortcut, which stands in place of a handler, is guarded by the same needs: each says what it
would ask (`wishes`), or that it cannot say so, and then the API has no shortcuts
(`permitted_shortcut`).

Law: what a principal may not see is not looked up, so that an answer does not reveal whether it
exists. If everybody may do everything, this stage is absent.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from types import MappingProxyType
from typing import Any

from kbroker.acl.acl import CLUSTER, AclOperation, AclResource, AclResourceType
from kbroker.apis.authorizer import Purpose
from kbroker.apis.context import LargeContext, RequestContext
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.config import config_resources
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID
from kbroker.protocol.request import NoResponse
from kbroker.protocol.schema import Message
from kbroker.slices import slices, slices_of_topics
from kbroker.turns import ENTRIES

Handler = Callable[..., Any]
OfRequest = Callable[[RequestContext, Any], AclResource | None]
OfAnswer = Callable[[RequestContext, Any], object]
OfEntry = Callable[[RequestContext, Any, Any], AclResource | ErrorCode | None]
TextOf = Callable[[ErrorCode], str | None]
Wish = tuple[AclOperation, AclResource]
"""An operation on a resource, which a request needs."""

REFUSALS: Mapping[AclResourceType, ErrorCode] = MappingProxyType(
    {
        AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        AclResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
_WORDS: Mapping[ErrorCode, str] = MappingProxyType(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    }
)


def in_words(code: ErrorCode) -> str | None:
    """Kafka's words for a code, which stand beside it."""
    return _WORDS.get(code)


def _no_text(_code: ErrorCode) -> str | None:
    return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ForRequest:
    """An operation on one resource, without which nothing of a request is done."""

    operation: AclOperation
    resource: OfRequest  # None: this request needs nothing of that kind
    unless: AclOperation | None = None  # on the same resource: either will do
    text: TextOf = _no_text  # said beside the code

    def guard(self, handler: Handler) -> Handler:
        """Return the handler for clients that may use it."""

        def handle(ctx: RequestContext, request: Message) -> Any:
            resource = self.resource(ctx, request)
            if resource is not None and not self._is_met(ctx, resource):
                code = REFUSALS[resource.type]
                raise KafkaError(code, self.text(code))
            return handler(ctx, request)

        return handle

    def wishes(self, ctx: RequestContext, request: Any) -> list[Wish] | None:
        """All that is asked for a request; None if the request alone does not say so."""
        resource = self.resource(ctx, request)
        if resource is None:
            return []
        return None if self.unless is not None else [(self.operation, resource)]

    def _is_met(self, ctx: RequestContext, resource: AclResource) -> bool:
        if self.unless is not None and ctx.is_authorized(self.unless, resource, Purpose.TO_CHOOSE):
            return True
        return ctx.is_authorized(self.operation, resource)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ForEach:
    """An operation on the resource of each entry of a request's array."""

    operation: AclOperation
    # None: nothing that could be refused, the handler says what is wrong. A code: refused with it.
    resource: OfEntry
    asked: str  # the array
    answered: str  # the response's array of the answers
    unless: AclOperation | None = None  # on the cluster, which stands for all entries
    text: TextOf = _no_text  # said beside the code
    complete: OfAnswer | None = None  # completes the answer to an entry that is refused
    # Arrays in a topic, and in its answer, which may be long as the request is taken as a whole.
    partitions: tuple[str, str] | None = None

    def guard(self, handler: Handler) -> Handler:
        """Return the handler, which sees only the entries that are authorized."""

        def handle(ctx: RequestContext, request: Message) -> Any:
            if self.unless is not None and ctx.is_authorized(
                self.unless, CLUSTER, Purpose.TO_CHOOSE
            ):
                return handler(ctx, request)
            entries = getattr(request, self.asked) or ()
            kept: list[Any] = []
            refusals: list[Any] = []
            sorting = self._sort(ctx, request, kept, refusals)
            count = len(entries)
            if self.partitions is not None and isinstance(ctx, LargeContext):
                count += sum(len(getattr(entry, self.partitions[0])) for entry in entries)
            return worked(sorting, count, self._answer, handler, ctx, request, kept, refusals)

        return handle

    def wishes(self, ctx: RequestContext, request: Any) -> list[Wish] | None:
        """All that is asked for a request; None if the request alone does not say so, or if some
        of it would be refused without a question.
        """
        if self.unless is not None:
            return None
        found: dict[AclResource, None] = {}
        for entry in getattr(request, self.asked) or ():
            resource = self.resource(ctx, request, entry)
            if isinstance(resource, ErrorCode):
                return None
            if resource is not None:
                found[resource] = None
        return [(self.operation, resource) for resource in found]

    def _sort(
        self, ctx: RequestContext, request: Message, kept: list[Any], refusals: list[Any]
    ) -> Iterator[None]:
        """Find the entries that are authorized, and the answers of the others; yields for each."""
        refused: dict[ErrorCode, list[Any]] = {}
        decided: Counter[tuple[AclResource, bool]] = Counter()  # of which somebody wants to hear
        for entry in getattr(request, self.asked) or ():
            code = self._refusal(ctx, request, entry, decided)
            if code is None:
                kept.append(entry)
            else:
                refused.setdefault(code, []).append(entry)
            yield
        for (resource, granted), references in decided.items():
            ctx.note_decision(self.operation, resource, Purpose.TO_DO, granted, references)
            yield
        for code, entries in refused.items():
            last = None
            for some in self._some_at_a_time(entries):
                part = self._only(request, some)
                refusal = part.error_response(code, ctx.api_version, self.text(code))
                ctx.tell_refusals(request, refusal)
                answers = getattr(refusal, self.answered)
                if self.complete is not None:
                    for answer in answers:
                        self.complete(ctx, answer)
                if self.partitions is not None and last == _name_of(some[0]):
                    rest = getattr(answers.pop(0), self.partitions[1])
                    getattr(refusals[-1], self.partitions[1]).extend(rest)
                refusals += answers
                last = _name_of(some[-1])
                yield from repeat(None, len(some) if self.partitions is None else ENTRIES)

    def _refusal(
        self,
        ctx: RequestContext,
        request: Message,
        entry: Any,
        decided: Counter[tuple[AclResource, bool]],
    ) -> ErrorCode | None:
        resource = self.resource(ctx, request, entry)
        if resource is None or isinstance(resource, ErrorCode):
            return resource
        services = ctx.services
        granted = services.authorizer.authorize(ctx.connection, self.operation, resource)
        if services.audit is not None and services.audit.hears(Purpose.TO_DO, is_granted=granted):
            decided[resource, granted] += 1
        return None if granted else REFUSALS[resource.type]

    def _some_at_a_time(self, entries: list[Any]) -> Iterator[list[Any]]:
        if self.partitions is None:
            return slices(entries, ENTRIES)
        return slices_of_topics(entries, self.partitions[0], ENTRIES)

    def _answer(
        self,
        handler: Handler,
        ctx: RequestContext,
        request: Message,
        kept: list[Any],
        refusals: list[Any],
    ) -> Any:
        if not refusals:
            return handler(ctx, request)
        answer: NowOrLater[Any] = handler(ctx, self._only(request, kept))
        return then(answer, self._with_refused, refusals)

    def _only(self, request: Message, entries: list[Any]) -> Message:
        part = copy.copy(request)
        setattr(part, self.asked, entries)
        return part

    def _with_refused(self, answer: Any, refusals: list[Any]) -> Any:
        if isinstance(answer, NoResponse):
            answer.close = True  # all that a producer with acks=0 can notice
        else:
            getattr(answer, self.answered).extend(refusals)
        return answer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ForAnswer:
    """An operation without which something is taken out of the answer, whoever has made it."""

    operation: AclOperation
    resource_type: AclResourceType
    hide: OfAnswer  # takes it out

    def guard(self, handler: Handler) -> Handler:
        """Return the handler, whose answers show what the client may see."""

        def handle(ctx: RequestContext, request: Message) -> Any:
            return then(handler(ctx, request), self._hidden, ctx)

        return handle

    def wishes(self, _ctx: RequestContext, _request: Any) -> list[Wish] | None:
        return None  # the answer says what is asked

    def _hidden(self, answer: Any, ctx: RequestContext) -> Any:
        self.hide(ctx, answer)
        return answer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AskedInside:
    """An operation on resources of a type, for which the handler asks `ctx` itself."""

    operation: AclOperation
    resource_type: AclResourceType
    # Whether the API's shortcuts do so as well, or leave what needs it to the handler.
    is_asked_in_shortcuts: bool = False

    def guard(self, handler: Handler) -> Handler:
        return handler

    def wishes(self, _ctx: RequestContext, _request: Any) -> list[Wish] | None:
        return [] if self.is_asked_in_shortcuts else None


Need = ForRequest | ForEach | ForAnswer | AskedInside


def guarded(needs: tuple[Need, ...], handler: Handler) -> Handler:
    """The handler after all its needs, the first one outermost."""
    for need in reversed(needs):
        handler = need.guard(handler)
    return handler


def _name_of(topic: Any) -> object:
    return getattr(topic, "name", topic), getattr(topic, "topic_id", None)


# Where resources stand in requests.


def the_cluster(_ctx: RequestContext, _request: Any) -> AclResource:
    return CLUSTER


def its_group(_ctx: RequestContext, request: Any) -> AclResource:
    return AclResource(AclResourceType.GROUP, request.group_id)


def its_transactional_id(_ctx: RequestContext, request: Any) -> AclResource | None:
    """Return the transactional id, if the request has one."""
    name = request.transactional_id
    return None if name is None else AclResource(AclResourceType.TRANSACTIONAL_ID, name)


def named_group(_ctx: RequestContext, _request: Any, entry: Any) -> AclResource:
    """Return a group of a request whose entries are names."""
    return AclResource(AclResourceType.GROUP, entry)


def named_transactional_id(_ctx: RequestContext, _request: Any, entry: Any) -> AclResource:
    """Return a transactional id of a request whose entries are names."""
    return AclResource(AclResourceType.TRANSACTIONAL_ID, entry)


def topic_in(field: str) -> OfEntry:
    """The topic that a field of each entry names."""

    def topic(_ctx: RequestContext, _request: Any, entry: Any) -> AclResource:
        return AclResource(AclResourceType.TOPIC, getattr(entry, field))

    return topic


def named_topic(_ctx: RequestContext, _request: Any, entry: Any) -> AclResource:
    """Return a topic of a request whose entries are names."""
    return AclResource(AclResourceType.TOPIC, entry)


def topic_or_id(ctx: RequestContext, _request: Any, entry: Any) -> AclResource | ErrorCode | None:
    """The topic that each entry names, or gives the id of; UNKNOWN_TOPIC_ID for an id that is not
    known: a moment later, or to the controller, it may be that of any topic.
    """
    if entry.name:
        return AclResource(AclResourceType.TOPIC, entry.name)
    if entry.topic_id == ZERO_UUID:
        return None
    name = ctx.services.metadata.topic_name(entry.topic_id)
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return AclResource(AclResourceType.TOPIC, name)


def config_resource(_ctx: RequestContext, _request: Any, entry: Any) -> AclResource | None:
    """Return what guards an entry's settings: its topic or group, or the cluster for brokers."""
    kind = entry.resource_type
    if kind == config_resources.ResourceType.TOPIC:
        return AclResource(AclResourceType.TOPIC, entry.resource_name)
    if kind == config_resources.ResourceType.GROUP:
        return AclResource(AclResourceType.GROUP, entry.resource_name)
    return CLUSTER if kind in _OF_THE_CLUSTER else None


_OF_THE_CLUSTER = frozenset(config_resources.ResourceType) - {
    config_resources.ResourceType.GROUP,
    config_resources.ResourceType.TOPIC,
}
