"""Access rules in nodes of the tree: paths and JSON of Kafka 3.9 (KIP-11, KIP-290).

Pure. Rules of names stand under /kafka-acl, those of beginnings of names under
/kafka-acl-extended; each has notifications of its own form. Encoders give Kafka's bytes, decoders
raise ZnodeFormatError for anything that Kafka could not have written: a node of a later version
is none that may be half understood.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TypeVar

from kbroker.acl.acl import (
    RESOURCE_TYPES,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    Acls,
    PatternType,
    Permission,
    label_of,
)
from kbroker.zk import zk_paths
from kbroker.zk.znode_json import ZnodeFormatError, decode_json, encode_json, int32, text

ROOTS = {
    PatternType.LITERAL: zk_paths.ACL,
    PatternType.PREFIXED: f"{zk_paths.EXTENDED_ACL}/prefixed",
}
CHANGES = {
    PatternType.LITERAL: zk_paths.ACL_CHANGES,
    PatternType.PREFIXED: zk_paths.EXTENDED_ACL_CHANGES,
}
CHANGE_PREFIX = "acl_changes_"
PERSISTENT_PATHS = (
    *(f"{root}/{label_of(kind)}" for root in ROOTS.values() for kind in RESOURCE_TYPES),
    *CHANGES.values(),
)

_VERSION = 1
_TYPES = {label_of(kind): kind for kind in RESOURCE_TYPES}
_OPERATIONS = {label_of(each): each for each in AclOperation if each is not AclOperation.ANY}
_PERMISSIONS = {label_of(each): each for each in (Permission.ALLOW, Permission.DENY)}
# What ZooKeeper takes in no path; a slash would make a node within a node, which Kafka never reads.
_NOT_IN_NAMES = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_NO_NAMES = ("", ".", "..")

T = TypeVar("T")


def can_be_kept(name: str) -> bool:
    """Whether the tree can have rules for a resource of this name.

    >>> can_be_kept("a/b")
    False
    """
    return name not in _NO_NAMES and _NOT_IN_NAMES.search(name) is None


def acl_path(pattern: AclPattern) -> str:
    """The node that has the rules of a pattern."""
    return f"{ROOTS[pattern.pattern_type]}/{label_of(pattern.type)}/{pattern.name}"


def resource_type_of(label: str) -> AclResourceType | None:
    """The kind of resource whose rules stand under a node of this name; None for other nodes."""
    return _TYPES.get(label)


def encode_acls(acls: Iterable[Acl]) -> bytes:
    """Data of the node of a pattern, version 1."""
    entries = [
        {
            "principal": acl.principal,
            "permissionType": label_of(acl.permission),
            "host": acl.host,
            "operation": label_of(acl.operation),
        }
        for acl in acls
    ]
    return encode_json({"acls": entries, "version": _VERSION})


def decode_acls(path: str, data: bytes | None) -> Acls:
    """The rules in a node, each once; a node without data has none. Raises ZnodeFormatError."""
    if not data:
        return ()
    document = decode_json(path, data)
    try:
        if int32(document["version"]) != _VERSION:
            raise ValueError(f"version {document['version']}")
        entries = document["acls"]
        if not isinstance(entries, list):
            raise TypeError("acls is not a list")
        return tuple(dict.fromkeys(map(_acl, entries)))
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeFormatError(f"{path}: {error!r}") from error


def check_principal(principal: str) -> None:
    """Raises ValueError for a principal that is not like User:ann."""
    if ":" not in principal:
        raise ValueError(
            f"Could not parse principal from `{principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )


def encode_change(pattern: AclPattern) -> bytes:
    """Data of a notification about a pattern."""
    kind, name, pattern_type = pattern
    if pattern_type is PatternType.LITERAL:
        return f"{kind.name}:{name}".encode()
    return encode_json(
        {
            "version": _VERSION,
            "resourceType": kind.name,
            "name": name,
            "patternType": pattern_type.name,
        }
    )


def decode_change(data: bytes | None) -> AclPattern:
    """The pattern that a notification is about, of either form. Raises ZnodeFormatError."""
    path = zk_paths.ACL_CHANGES
    found = (data or b"").decode(errors="replace")
    if not found.startswith("{"):
        kind, colon, name = found.partition(":")
        if not (colon and name):
            raise ZnodeFormatError(f"{path}: {found!r} names no resource")
        return AclPattern(_resource_type(path, kind), name)
    document = decode_json(zk_paths.EXTENDED_ACL_CHANGES, data)
    try:
        kind, name = text(document["resourceType"]), text(document["name"])
        pattern_type = PatternType[text(document["patternType"])]
        if int32(document["version"]) != _VERSION or pattern_type not in ROOTS:
            raise ValueError(found)
    except (KeyError, ValueError) as error:
        raise ZnodeFormatError(f"{zk_paths.EXTENDED_ACL_CHANGES}: {error!r}") from error
    return AclPattern(_resource_type(path, kind), name, pattern_type)


def _acl(entry: dict[str, object]) -> Acl:
    principal = sys.intern(text(entry["principal"]))  # thousands of rules have the same
    check_principal(principal)
    return Acl(
        principal,
        sys.intern(text(entry["host"])),
        _OPERATIONS[text(entry["operation"])],
        _PERMISSIONS[text(entry["permissionType"])],
    )


def _resource_type(path: str, name: str) -> AclResourceType:
    for kind in RESOURCE_TYPES:
        if name in (kind.name, label_of(kind)):
            return kind
    raise ZnodeFormatError(f"{path}: no resource is a {name!r}")
