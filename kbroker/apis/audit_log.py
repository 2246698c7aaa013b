"""AuditLog: what an authorizer has decided, in the words of Kafka's AclAuthorizer, by the logger of
that name.

Law: what is done or refused is told at DEBUG and INFO; a refusal that only leaves something out of
an answer, or lets the client do it by another right, at TRACE, and so is all that only says what a
client could do. Like lines are written once a minute and then counted, see `rare_lines`. What the
logger does not let through costs one look at its level.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType, label_of
from kbroker.admin.broker_loggers import TRACE
from kbroker.apis.authorizer import Purpose
from kbroker.clock import Clock
from kbroker.counters import Counter, CounterRegistry, Kind, MetricName, RecentRate
from kbroker.ip_addresses import address_in_rules
from kbroker.line_fields import fields_of
from kbroker.protocol.request import ConnectionInfo
from kbroker.rare_lines import RareLines, note_of

LOGGER: Final = "kafka.authorizer.logger"
_log = logging.getLogger(LOGGER)

_LOUDER: Final = logging.DEBUG, TRACE  # which somebody has asked for
_ASKED_FOR: Final = 200  # different lines of a kind in a minute
_NAME_CHARACTERS: Final = 260  # a topic's name has 249
_RULE_CHARACTERS: Final = 600
_MINUTE_S: Final = 60.0
_LEVELS: Final[Mapping[tuple[Purpose, bool], int]] = MappingProxyType(
    {
        (Purpose.TO_DO, True): logging.DEBUG,
        (Purpose.TO_DO, False): logging.INFO,
        (Purpose.TO_CHOOSE, True): logging.DEBUG,
        (Purpose.TO_CHOOSE, False): TRACE,
        (Purpose.TO_SHOW, True): TRACE,
        (Purpose.TO_SHOW, False): TRACE,
    }
)
"""By the purpose of a question, and whether the answer is yes."""


Reason = Callable[[ConnectionInfo, AclOperation, AclResource], str]
"""Names the rule, or the setting, that decides."""


class AuditLog:
    """The audit log of one broker."""

    __slots__ = ("_clock", "_lines", "_rate", "_reason", "denials")

    def __init__(self, clock: Clock, reason: Reason | None = None) -> None:
        """`reason` says what decided, for the lines that are written."""
        self._clock = clock
        self._reason = reason
        self._lines = {logging.INFO: RareLines(), **{n: RareLines(_ASKED_FOR) for n in _LOUDER}}
        self._rate = RecentRate(clock.monotonic_ms() / 1000, _MINUTE_S)
        self.denials = Counter()
        logging.addLevelName(TRACE, "TRACE")

    def register(self, counters: CounterRegistry) -> None:
        """Name the measures of denials: the rate as Kafka 4 has it, and their number."""
        counters.add(MetricName("kbroker.apis", "Authorizer", "Denials"), self.denials)
        tags = (("config", "authorizer.class.name"),)
        rate = MetricName("kafka.server", "plugins", "authorization-denied-rate-per-minute", tags)
        counters.add(rate, self._denied_per_minute, Kind.GAUGE)

    def hears(self, purpose: Purpose, *, is_granted: bool) -> bool:
        """Whether anybody wants to hear of such decisions, or counts them."""
        level = _LEVELS[purpose, is_granted]
        return level == logging.INFO or _log.isEnabledFor(level)

    def hears_grants(self) -> bool:
        """Whether each decision is told, also what only leaves something out: requests go the long
        way then, and no answer is kept.
        """
        return _log.isEnabledFor(logging.DEBUG)

    def note(
        self,
        connection: ConnectionInfo,
        request: str,
        asked: tuple[AclOperation, AclResource],
        purpose: Purpose,
        *,
        is_granted: bool,
        references: int = 1,
    ) -> None:
        """Tell of a decision about a resource, to which a request refers so many times."""
        level = _LEVELS[purpose, is_granted]
        if level == logging.INFO:
            self.denials.value += 1
        if not _log.isEnabledFor(level):
            return
        operation, (kind, name) = asked
        principal, name = connection.principal[:_NAME_CHARACTERS], name[:_NAME_CHARACTERS]
        host = address_in_rules(connection.peer_host)
        like = self._lines[level].left_out(
            (principal, request, is_granted),
            f"{operation} {kind} {host} {name}",
            self._clock.monotonic_ms(),
        )
        if like is None:
            return
        result, what = "Allowed" if is_granted else "Denied", label_of(operation)
        resource = f"{label_of(kind)}:LITERAL:{name}"
        if not references:
            resource = f"{label_of(kind)}:UNKNOWN:NONE"
        line = (
            f"Principal = {principal} is {result} Operation = {what} from host = {host} on "
            f"resource = {resource} for request = {request} with resourceRefCount = {references}"
        )
        event = "authorization_granted" if is_granted else "authorization_denied"
        if references and self._reason is not None:
            rule = self._reason(connection, operation, asked[1])
            line += f" based on rule {rule[:_RULE_CHARACTERS]}"
        fields = fields_of(
            event,
            client_id=connection.client_id and connection.client_id[:_NAME_CHARACTERS],
            api=request,
            topic=name if kind is AclResourceType.TOPIC and references else None,
            principal=principal,
            operation=what,
            resource=resource,
            host=host,
        )
        _log.log(level, "%s", line + note_of(like), extra=fields)

    def _denied_per_minute(self) -> float:
        now_s = self._clock.monotonic_ms() / 1000
        return self._rate.at(now_s, self.denials.value) * _MINUTE_S
