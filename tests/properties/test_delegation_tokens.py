"""Delegation tokens in nodes: written tokens are read again, and no bytes do anything but that or a
refusal.
"""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.zk.nodes.delegation_token_znodes import decode_token, encode_token
from kbroker.zk.znode_json import ZnodeFormatError

TIMES = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PRINCIPALS = st.builds("{}:{}".format, NAMES.filter(lambda name: ":" not in name), NAMES)
TOKENS = st.builds(
    DelegationToken,
    st.just("id"),
    PRINCIPALS,
    PRINCIPALS,
    st.lists(PRINCIPALS, max_size=3).map(tuple),
    TIMES,
    TIMES,
    TIMES,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    list(json.loads(encode_token(DelegationToken("id", "a:b", "a:b", (), 0, 0, 0))))
)


@given(TOKENS)
def test_a_token_is_read_as_it_was_written(token: DelegationToken) -> None:
    assert decode_token("id", encode_token(token)) == token


@given(TOKENS, st.dictionaries(FIELDS, VALUES, max_size=3))
def test_a_spoilt_token_is_refused_or_names_all_of_its_principals(
    token: DelegationToken, spoilt: dict[str, object]
) -> None:
    document = json.loads(encode_token(token)) | spoilt
    with suppress(ZnodeFormatError):
        found = decode_token("id", json.dumps(document).encode())
        assert all(":" in each for each in (found.owner, found.requester, *found.renewers))
        assert found.token_id == "id"


@given(st.binary(max_size=100))
def test_any_bytes_are_a_token_or_refused(data: bytes) -> None:
    with suppress(ZnodeFormatError):
        decode_token("id", data)
