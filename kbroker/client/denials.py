"""Denials in answers of brokers: which operation on which resource was refused, and the command
that allows it. Pure.

An answer says only what kind of resource was refused; the operation follows from the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import quote
from types import MappingProxyType
from typing import Any, NamedTuple

from kbroker.acl.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    Permission,
)
from kbroker.acl.rule_words import NOUNS, OPTIONS, USER, AclRule, rule_words, word_of
from kbroker.client.connection_settings import ConnectionSettings
from kbroker.errors import ErrorCode
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.declaration import Struct, field_specs
from kbroker.protocol.error_response import CODE_FIELDS, error_codes
from kbroker.protocol.schema import Message
from kbroker.wording import shown

_TOPIC, _GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
_CLUSTER, _TRANSACTIONAL_ID = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID
_OF_CODES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _GROUP,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _CLUSTER,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _TRANSACTIONAL_ID,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AclResourceType.DELEGATION_TOKEN,
}
_NAMES = {
    _TOPIC: ("name", "topic_name", "topic", "resource_name"),
    _GROUP: ("group_id", "key"),
    _TRANSACTIONAL_ID: ("transactional_id", "key"),
    _CLUSTER: (),
    AclResourceType.DELEGATION_TOKEN: (),
}

OPERATIONS: Mapping[ApiKey, Mapping[AclResourceType, AclOperation]] = MappingProxyType(
    {
        ApiKey.PRODUCE: {_TOPIC: AclOperation.WRITE, _TRANSACTIONAL_ID: AclOperation.WRITE},
        ApiKey.FETCH: {_TOPIC: AclOperation.READ},
        ApiKey.LIST_OFFSETS: {_TOPIC: AclOperation.DESCRIBE},
        ApiKey.METADATA: {_TOPIC: AclOperation.DESCRIBE, _CLUSTER: AclOperation.CREATE},
        ApiKey.OFFSET_COMMIT: {_TOPIC: AclOperation.READ, _GROUP: AclOperation.READ},
        ApiKey.OFFSET_FETCH: {_TOPIC: AclOperation.DESCRIBE, _GROUP: AclOperation.DESCRIBE},
        ApiKey.FIND_COORDINATOR: {
            _GROUP: AclOperation.DESCRIBE,
            _TRANSACTIONAL_ID: AclOperation.DESCRIBE,
        },
        ApiKey.DESCRIBE_GROUPS: {_GROUP: AclOperation.DESCRIBE},
        ApiKey.LIST_GROUPS: {_CLUSTER: AclOperation.DESCRIBE},
        ApiKey.CREATE_TOPICS: {_TOPIC: AclOperation.CREATE, _CLUSTER: AclOperation.CREATE},
        ApiKey.DELETE_TOPICS: {_TOPIC: AclOperation.DELETE},
        ApiKey.DELETE_RECORDS: {_TOPIC: AclOperation.DELETE},
        ApiKey.INIT_PRODUCER_ID: {
            _TRANSACTIONAL_ID: AclOperation.WRITE,
            _CLUSTER: AclOperation.IDEMPOTENT_WRITE,
        },
        ApiKey.OFFSET_FOR_LEADER_EPOCH: {_TOPIC: AclOperation.DESCRIBE},
        ApiKey.ADD_PARTITIONS_TO_TXN: {
            _TOPIC: AclOperation.WRITE,
            _TRANSACTIONAL_ID: AclOperation.WRITE,
        },
        ApiKey.ADD_OFFSETS_TO_TXN: {
            _GROUP: AclOperation.READ,
            _TRANSACTIONAL_ID: AclOperation.WRITE,
        },
        ApiKey.END_TXN: {_TRANSACTIONAL_ID: AclOperation.WRITE},
        ApiKey.WRITE_TXN_MARKERS: {_CLUSTER: AclOperation.ALTER},
        ApiKey.TXN_OFFSET_COMMIT: {
            _TOPIC: AclOperation.READ,
            _GROUP: AclOperation.READ,
            _TRANSACTIONAL_ID: AclOperation.WRITE,
        },
        ApiKey.DESCRIBE_ACLS: {_CLUSTER: AclOperation.DESCRIBE},
        ApiKey.CREATE_ACLS: {_CLUSTER: AclOperation.ALTER},
        ApiKey.DELETE_ACLS: {_CLUSTER: AclOperation.ALTER},
        ApiKey.DESCRIBE_CONFIGS: {
            _TOPIC: AclOperation.DESCRIBE_CONFIGS,
            _CLUSTER: AclOperation.DESCRIBE_CONFIGS,
        },
        ApiKey.ALTER_CONFIGS: {
            _TOPIC: AclOperation.ALTER_CONFIGS,
            _CLUSTER: AclOperation.ALTER_CONFIGS,
        },
        ApiKey.INCREMENTAL_ALTER_CONFIGS: {
            _TOPIC: AclOperation.ALTER_CONFIGS,
            _CLUSTER: AclOperation.ALTER_CONFIGS,
        },
        ApiKey.ALTER_REPLICA_LOG_DIRS: {_CLUSTER: AclOperation.ALTER},
        ApiKey.DESCRIBE_LOG_DIRS: {_CLUSTER: AclOperation.DESCRIBE},
        ApiKey.CREATE_PARTITIONS: {_TOPIC: AclOperation.ALTER},
        ApiKey.DELETE_GROUPS: {_GROUP: AclOperation.DELETE},
        ApiKey.ELECT_LEADERS: {_CLUSTER: AclOperation.ALTER},
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: {_CLUSTER: AclOperation.ALTER},
        ApiKey.LIST_PARTITION_REASSIGNMENTS: {_CLUSTER: AclOperation.DESCRIBE},
        ApiKey.OFFSET_DELETE: {_TOPIC: AclOperation.READ, _GROUP: AclOperation.DELETE},
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {_CLUSTER: AclOperation.DESCRIBE},
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {_CLUSTER: AclOperation.ALTER},
        ApiKey.DESCRIBE_CLIENT_QUOTAS: {_CLUSTER: AclOperation.DESCRIBE_CONFIGS},
        ApiKey.ALTER_CLIENT_QUOTAS: {_CLUSTER: AclOperation.ALTER_CONFIGS},
        ApiKey.UPDATE_FEATURES: {_CLUSTER: AclOperation.ALTER},
        ApiKey.DESCRIBE_PRODUCERS: {_TOPIC: AclOperation.READ},
        ApiKey.DESCRIBE_TRANSACTIONS: {_TRANSACTIONAL_ID: AclOperation.DESCRIBE},
    }
)
"""The operation whose lack refuses a request of our commands, by kind of resource."""


class Denial(NamedTuple):
    """An operation that was refused; None for what an answer does not say."""

    kind: AclResourceType
    operation: AclOperation | None = None
    name: str | None = None

    def sentence(self, principal: str | None) -> str:
        """Say what is missing, and how it is allowed; `principal` None: it is not known here."""
        what = "" if self.kind is _CLUSTER else f" {shown(self.name)}" if self.name else ""
        place = f"{'the ' if self.kind is _CLUSTER else ''}{NOUNS[self.kind]}{what}"
        who = "you need" if principal is None else f"{principal} needs"
        if self.operation is None:
            return f"{who} a right to {place}: `kbroker acl --help` says how it is given"
        words = self._command(principal or "PRINCIPAL", self.operation)
        return f"{who} {word_of(self.operation)} on {place}: `kbroker acl {words}` gives it"

    def _command(self, principal: str, operation: AclOperation) -> str:
        if self.kind is not _CLUSTER and not self.name:
            return f"allow {quote(principal)} {word_of(operation)} {OPTIONS[self.kind]} NAME"
        pattern = AclPattern(self.kind, self.name or CLUSTER_NAME)
        return rule_words(AclRule(pattern, Acl(principal, WILDCARD, operation, Permission.ALLOW)))


def denials_in(request: Message | type[Message], answer: Struct) -> Iterator[Denial]:
    """Yield what an answer refuses for lack of a right; each once, if it stands there once."""
    if not any(code in _OF_CODES for code in error_codes(answer)):
        return
    key = request.spec.key
    operations = OPERATIONS.get(ApiKey(key), {}) if key is not None else {}
    for code, places in _refusals(answer, (request,)):
        kind = _OF_CODES[code]
        yield Denial(kind, operations.get(kind), _name_of(kind, places))


def denial_to_a_member(error: BaseException | None) -> Denial | None:
    """Return what an error of kafka-python says was refused to a member of a group, if it does."""
    code = getattr(error, "errno", None)
    kind = _OF_CODES.get(ErrorCode(code)) if isinstance(code, int) else None
    if kind not in (_TOPIC, _GROUP):
        return None
    (said, *_) = getattr(error, "args", ()) or (None,)
    names = [said] if isinstance(said, str) else list(said or ())
    return Denial(kind, AclOperation.READ, str(names[0]) if names else None)


def principal_with(settings: ConnectionSettings) -> str | None:
    """Return the principal of connections with these settings; None if brokers alone know it, as
    they make it of a certificate or a token.
    """
    if settings.login is not None:
        return f"{USER}{settings.login.username}" if settings.login.username else None
    tls = settings.tls
    if tls is not None and (tls.certificate_file or tls.certificate_text):
        return None
    return f"{USER}ANONYMOUS"


def _refusals(
    answer: Struct, above: tuple[Any, ...]
) -> Iterator[tuple[ErrorCode, tuple[Any, ...]]]:
    """The codes of an answer, each with what it stands in, the innermost first."""
    places = (answer, *above)
    for field in field_specs(type(answer)):
        value = getattr(answer, field.name)
        if field.name in CODE_FIELDS and value in _OF_CODES:
            yield ErrorCode(value), places
        elif field.struct is not None and field.is_array:
            for entry in value or ():
                yield from _refusals(entry, places)


def _name_of(kind: AclResourceType, places: tuple[Any, ...]) -> str | None:
    for place in places:
        for field in _NAMES[kind]:
            value = getattr(place, field, None)
            if isinstance(value, str) and value:
                return value
    return None
