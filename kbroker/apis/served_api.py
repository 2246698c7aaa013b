"""All that is known beforehand about one version of one API: worked out at its first request.

Law: the stages that have nothing to decide are not there, see `kafka_apis`. A request goes from its
beginning to its end with the services, authorizer and quotas among them, that are settled here.
"""

from __future__ import annotations

import sys
from struct import Struct

from kbroker.apis.asked_quotas import asked_first, asks_ahead
from kbroker.apis.authorization import guarded
from kbroker.apis.authorizer import ALLOW_ALL, ruled
from kbroker.apis.broker_only_requests import heard_only_from
from kbroker.apis.client_quotas import counted_for
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.forwarding import handler_of
from kbroker.apis.large_requests import (
    LARGE_BYTES,
    MOST_PRODUCED_AT_ONCE,
    most_elements,
)
from kbroker.apis.permitted_shortcut import permitted
from kbroker.apis.refused_requests import told
from kbroker.apis.registry import Api, Handler
from kbroker.apis.request_counters import RequestCounters
from kbroker.apis.request_parts import AS_A_WHOLE, parts_in
from kbroker.apis.shortcut import MakeShortcut
from kbroker.peers.cluster_action import Sender, sender_of
from kbroker.protocol.codec import decoder_of, encoder_of
from kbroker.protocol.header import response_header_version
from kbroker.protocol.schema import field_specs, response_class

PRODUCE_KEY = 0
_HEADER_V0 = Struct(">i")  # correlation id
_HEADER_V1 = Struct(">ix")  # correlation id, no tagged fields


class Served:
    """All that is known beforehand about one version of one API."""

    __slots__ = (
        "counters",
        "decode",
        "encode",
        "exempt",
        "handler",
        "has_code",
        "header",
        "is_in_force",
        "is_produce",
        "key",
        "known",
        "large_bytes",
        "most_elements",
        "name",
        "parts",
        "quotas",
        "repeats",
        "request_class",
        "response_class",
        "sender",
        "services",
        "shortcut",
        "version",
    )

    def __init__(
        self,
        api: Api,
        version: int,
        services: Services,
        counters: RequestCounters | None = None,
    ) -> None:
        handler = handler_of(api)
        self.sender = sender_of(api.key, version)
        if self.sender is Sender.ANYBODY:
            handler = told(api.key, response_class(api.request_class), handler)
        has_stage = handler is not api.handler or self.sender is not Sender.ANYBODY
        self.shortcut = None if has_stage else _shortcuts(api, services)
        if services.authorizer is not ALLOW_ALL:
            handler = guarded(api.needs, handler)
        is_of_client = self.sender is Sender.ANYBODY  # brokers never throttle each other
        self.quotas = counted_for(api.key, services.quotas) if is_of_client else None
        handler = heard_only_from(self.sender, asked_first(self.quotas, handler, api.exempt))
        self.handler: Handler = (
            handler if services.tracer is None else services.tracer.noted(handler)
        )
        self.header = _HEADER_V1 if response_header_version(api.key, version) else _HEADER_V0
        declared = parts_in(api.parts, api.request_class, version)
        self.parts = None if declared is AS_A_WHOLE else declared
        self.large_bytes = LARGE_BYTES
        self.is_produce = api.key == PRODUCE_KEY
        self.key = api.key
        self.name = api.name
        self.repeats = bool(api.repeats) and services.tracer is None
        self.exempt = api.exempt
        self.services = services
        self.counters = counters or RequestCounters()
        self.is_in_force = True  # no others have taken the place of these services
        keeps_answers = _asks_nobody_each_time(services) and not asks_ahead(self.quotas)
        self.known = api.known if keeps_answers else None
        self.request_class = api.request_class
        self.response_class = response_class(api.request_class)
        self.most_elements = api.request_class.max_elements  # for brokers
        if self.sender is Sender.ANYBODY:
            self.most_elements = most_elements(declared, api.request_class)
        fields = field_specs(self.response_class)
        self.has_code = any(f.name == "error_code" and version in f.versions for f in fields)
        elements = self.most_elements
        if self.is_produce:  # records are not read: it is large when it has many entries
            self.large_bytes, elements = sys.maxsize, MOST_PRODUCED_AT_ONCE
        self.decode = decoder_of(api.request_class, version, elements)
        self.encode = encoder_of(self.response_class, version)
        self.version = version

    def counters_of(self, ctx: RequestContext) -> RequestCounters:
        """The counters of the answer to a request; most answers find them without a call."""
        return self.counters.followers if ctx.is_of_follower else self.counters


def _asks_nobody_each_time(services: Services) -> bool:
    """Whether nobody follows the requests, and what is decided about them follows from rules."""
    is_open = services.authorizer is ALLOW_ALL or ruled(services.authorizer) is not None
    return is_open and services.tracer is None


def _shortcuts(api: Api, services: Services) -> MakeShortcut | None:
    """Return the maker of an API's shortcuts, whose handler no stage stands around but that of the
    authorizer; None if it has none, or somebody has to be asked each time.
    """
    if api.repeats in (False, True) or not _asks_nobody_each_time(services):
        return None
    make: MakeShortcut = api.repeats
    return make if services.authorizer is ALLOW_ALL else permitted(make, api.needs)
