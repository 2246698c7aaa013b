"""Readers of what strangers send, or of what lies on a disk or in a tree, with the errors that they
declare and inputs to begin with.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from kbroker.admin.client_quota_changes import entity_at
from kbroker.apis.registry import registered
from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.errors import KafkaError, ProtocolError
from kbroker.log.disk.checkpoint import (
    CheckpointError,
    read_leader_epochs,
    read_meta_properties,
    read_offset_checkpoint,
    read_partition_metadata,
)
from kbroker.log.producers.producer_snapshot import (
    SnapshotError,
    decode_snapshot,
    encode_rows,
    encode_snapshot,
)
from kbroker.log.producers.producer_state import ProducerStateEntry
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.offset_index import OffsetIndex
from kbroker.log.segments.time_index import TimeIndex
from kbroker.log.segments.transaction_index import TransactionIndex
from kbroker.protocol.codec import decoder_of, encode
from kbroker.protocol.header import RequestHeader, decode_request_header, encode_request_header
from kbroker.quotas.client_limits import ClientLimits
from kbroker.quotas.quota_entity import ADDRESS_KEYS, CLIENT_KEYS, QuotaError, limit_in
from kbroker.record import record_batch
from kbroker.record.compression import CODEC_NAMES, compress
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import read_any_header
from kbroker.record.old_messages import OldMessages
from kbroker.record.record_batch import BatchOptions
from kbroker.sasl.exchange import LoginRefusedError
from kbroker.sasl.oauthbearer import BearerLogin, bearer_message, parse_bearer_login
from kbroker.sasl.plain import PlainServer, check_of, plain_token
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential
from kbroker.sasl.scram_messages import ScramError, parse_client_final, parse_client_first
from kbroker.zk import zk_paths
from kbroker.zk.nodes import acl_znodes, admin_znodes, delegation_token_znodes
from kbroker.zk.znode_json import ZnodeFormatError
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.faults.fuzz_frames import frames, read_frame
from tests.golden.payload_frames import message_of
from tests.properties.message_samples import random_struct

_PLAIN = PlainServer(check_of({"ann": "secret"}))
_MANY_BYTES = 1 << 20  # of the records of a batch


@dataclass(frozen=True, slots=True)
class Target:
    """A reader; anything that is not `declared` must not leave it."""

    name: str
    read: Callable[[bytes], object]
    declared: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]]


# ---- requests


def _read_request(data: bytes) -> object:
    view = memoryview(bytearray(data))
    header, offset = decode_request_header(view)
    api = registered().get(header.api_key)
    if api is None or header.api_version not in api.versions:
        return None
    request, _ = decoder_of(api.request_class, header.api_version, 5_000)(view, offset)
    return encode(request, header.api_version)


def _requests() -> Iterable[bytes]:
    """One of each request in each version, with values drawn."""
    for key, api in registered().items():
        for version in range(api.versions.lowest, api.versions.highest + 1):
            request = random_struct(api.request_class, version, Random(f"{key}/{version}"))
            head = encode_request_header(RequestHeader(key, version, 7, "client"))
            yield encode(request, version, head)


# ---- records


def _read_batch(data: bytes) -> object:
    size = 0
    for record in record_batch.records(data):
        size += len(record.value or b"")
        if size > _MANY_BYTES:
            break
    return size


def _batches() -> Iterable[bytes]:
    records = [
        Record(n, 1_700_000_000_000 + n, b"key" * n, b"value" * n, (("h", b"x"),)) for n in range(4)
    ]
    for codec in CODEC_NAMES:
        yield record_batch.build(records, options=BatchOptions(compression=codec))


def _read_old(data: bytes) -> object:
    header = read_any_header(data)
    if header.magic > 1:
        return None
    return OldMessages.of(header, memoryview(data)).walk(checks_crc=False)


def _old_messages() -> Iterable[bytes]:
    for magic in (0, 1):
        inner = message_of(magic, 0, b"value") + message_of(magic, 0, b"other", 1)
        yield message_of(magic, 0, b"value")
        for codec in (1, 2, 3):
            yield message_of(magic, codec, bytes(compress(codec, inner)), 1)


# ---- logins


def _read_login(data: bytes) -> object:
    kind, token = data[:1], data[1:]
    if kind == b"p":
        return _PLAIN.receive(token)
    if kind == b"b":
        return parse_bearer_login(token)
    return parse_client_first(token) if kind == b"f" else parse_client_final(token)


def _logins() -> Iterable[bytes]:
    yield b"p" + plain_token("ann", "secret")
    yield b"b" + bearer_message(BearerLogin("a.b.c", extensions={"traceId": "1"}))
    yield b"fn,,n=ann,r=nonce,tokenauth=true"
    yield b"fn,a=ann,n=a=2Cb=3D,r=nonce"
    yield b"lc=biws,r=nonce,p=c2VjcmV0"


# ---- nodes of the tree

_NODES: dict[bytes, Callable[[bytes], object]] = {
    b"a": lambda data: acl_znodes.decode_acls("/a", data),
    b"c": acl_znodes.decode_change,
    b"q": lambda data: zk_paths.decode_config("/c", data),
    b"n": zk_paths.decode_config_change,
    b"t": lambda data: zk_paths.decode_topic("t", data),
    b"s": lambda data: zk_paths.decode_partition_state("/s", data, 0),
    b"b": lambda data: zk_paths.decode_broker(1, data, 1),
    b"o": zk_paths.decode_controller,
    b"p": zk_paths.decode_producer_id_block,
    b"r": admin_znodes.decode_reassignment,
    b"e": admin_znodes.decode_preferred_election,
}


def _read_node(data: bytes) -> object:
    read = _NODES.get(data[:1])
    return None if read is None else read(data[1:])


def _nodes() -> Iterable[bytes]:
    rule = b'"principal":"User:a","permissionType":"Deny","host":"*","operation":"Read"'
    change = b'"resourceType":"TOPIC","name":"a","patternType":"PREFIXED"'
    yield b'a{"acls":[{%b}],"version":1}' % rule
    yield b"cTOPIC:a"
    yield b'c{"version":1,%b}' % change
    yield b'q{"version":1,"config":{"producer_byte_rate":"1.0","SCRAM-SHA-256":"salt=a"}}'
    yield b'n{"version":2,"entity_path":"users/a/clients/b"}'
    yield (
        b't{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":{"0":[1]},'
        b'"adding_replicas":{},"removing_replicas":{}}'
    )
    yield b's{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1]}'
    yield (
        b'b{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://'
        b'h:9092"],"jmx_port":-1,"port":9092,"host":"h","version":5,"timestamp":"1","features":{}}'
    )
    yield b'o{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}'
    yield b'p{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    yield b'r{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}'
    yield b'e{"version":1,"partitions":[{"topic":"t","partition":0}]}'


def _read_quotas(data: bytes) -> object:
    """A node of quotas: its type and name stand before it."""
    place, _, node = data.partition(b"\n")
    entity_type, _, name = place.decode(errors="replace").partition("/")
    overrides = zk_paths.decode_config("/config", node)
    entity = entity_at(entity_type, name)
    keys = CLIENT_KEYS if entity.ip is None else ADDRESS_KEYS
    values = {key: limit_in(key, overrides[key]) for key in keys if key in overrides}
    limits = ClientLimits()
    if entity.ip is None:
        limits.put(entity, values)
    return values, len(limits)


def _quotas() -> Iterable[bytes]:
    node = b'{"version":1,"config":{"producer_byte_rate":"1.0","controller_mutation_rate":"1e-3"}}'
    for place in (b"users/ann", b"users/<default>/clients/a%40b", b"clients/<default>"):
        yield place + b"\n" + node
    yield b'ips/10.0.0.1\n{"version":1,"config":{"connection_creation_rate":"10"}}'
    yield b'users/ann\n{"version":1,"config":{"request_percentage":"NaN","SCRAM-SHA-256":"salt"}}'


def _read_token(data: bytes) -> object:
    """A node of a delegation token, or of a change: what is read is written, and read again."""
    token_id, _, node = data.partition(b"\n")
    if not node:
        return delegation_token_znodes.decode_change(data)
    name = token_id.decode(errors="replace")
    token = delegation_token_znodes.decode_token(name, node)
    again = delegation_token_znodes.encode_token(token)
    assert delegation_token_znodes.decode_token(name, again) == token
    return token


def _tokens() -> Iterable[bytes]:
    yield b"wvSJ5G0lQ2eAKFgbS-tEkg"
    token = DelegationToken(
        token_id="t", owner="User:ann", requester="User:b/c", renewers=("User:ren", "User:*"),
        issued_ms=1, expires_ms=2, ends_ms=3,
    )  # fmt: skip
    node = delegation_token_znodes.encode_token(token)
    yield b"t\n" + node
    yield b"t\n" + node.replace(b'"version":3', b'"version":2')


def _read_credential(data: bytes) -> object:
    return ScramCredential.parse(SCRAM_MECHANISMS["SCRAM-SHA-256"], data.decode())


def _credentials() -> Iterable[bytes]:
    key = b"5fFUxV0AD26xWkoJJg7bXVrfsC18oO/9teoJx9PJtT0="
    yield b"salt=c2FsdHNhbHQ=,stored_key=%b,server_key=%b,iterations=4096" % (key, key)


# ---- files


class _OneFile:
    """A disk on which every file has the same bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def exists(self, _path: str) -> bool:
        return True

    def read_bytes(self, _path: str) -> bytes:
        return self._data


_FILES: dict[bytes, Callable[[Any, str], object]] = {
    b"o": read_offset_checkpoint,
    b"e": read_leader_epochs,
    b"p": read_partition_metadata,
    b"m": read_meta_properties,
}


def _read_file(data: bytes) -> object:
    if data[:1] == b"s":
        return decode_snapshot(data[1:])
    read = _FILES.get(data[:1])
    return None if read is None else read(_OneFile(data[1:]), "/d")


def _files() -> Iterable[bytes]:
    yield b"o0\n1\nt 0 5\n"
    yield b"e0\n2\n0 0\n1 7\n"
    yield b"pversion: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    yield b"mversion=0\nbroker.id=1\ncluster.id=abc\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    yield b"s" + encode_snapshot(1, [encode_rows([ProducerStateEntry(7, 1)])])


def _read_index(data: bytes) -> object:
    disk = MemoryFileSystem()
    disk.write_bytes("/i", data[1:])
    if data[:1] == b"x":
        aborted = TransactionIndex(disk, "/i", 0)
        aborted.sanity_check()
        return aborted.collect(0, 1 << 40)
    if data[:1] == b"o":
        offsets = OffsetIndex(disk, "/i", 0, 1 << 16)
        offsets.sanity_check()
        return offsets.lookup(5), offsets.last_offset
    times = TimeIndex(disk, "/i", 0, 1 << 16)
    times.sanity_check()
    return times.lookup(1_700_000_000_005), times.last_entry


def _indexes() -> Iterable[bytes]:
    yield b"o" + b"".join(struct.pack(">ii", n * 3, n * 100) for n in range(8))
    yield b"t" + b"".join(struct.pack(">qi", 1_700_000_000_000 + n, n) for n in range(8))
    yield b"x" + b"".join(struct.pack(">hqqqq", 0, 7, n * 9, n * 9 + 5, n * 9) for n in range(4))


TARGETS = {
    each.name: each
    for each in (
        Target("requests", _read_request, (ProtocolError,), _requests),
        Target("batches", _read_batch, (KafkaError,), _batches),
        Target("old-messages", _read_old, (KafkaError,), _old_messages),
        Target("logins", _read_login, (LoginRefusedError, ScramError), _logins),
        Target("nodes", _read_node, (ZnodeFormatError,), _nodes),
        Target("quotas", _read_quotas, (ZnodeFormatError, QuotaError), _quotas),
        Target("tokens", _read_token, (ZnodeFormatError,), _tokens),
        Target("frames", read_frame, (ProtocolError,), frames),
        Target("credentials", _read_credential, (ValueError,), _credentials),
        Target("files", _read_file, (CheckpointError, SnapshotError), _files),
        Target("indexes", _read_index, (CorruptIndexError,), _indexes),
    )
}
