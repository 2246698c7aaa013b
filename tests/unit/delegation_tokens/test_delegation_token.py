"""How long delegation tokens last, who changes that, and how they are signed."""

from __future__ import annotations

import pytest

from kbroker.delegation_tokens.delegation_token import (
    DelegationToken,
    Lifetimes,
    issued,
    password,
    renewed,
    shortened,
    signature,
)
from kbroker.errors import ErrorCode, KafkaError

HOUR_MS = 3_600_000
LIFETIMES = Lifetimes(unless_renewed_ms=24 * HOUR_MS, longest_ms=168 * HOUR_MS)
NOW_MS = 1_795_251_753_852
LAST_MS = 2**63 - 1
WISH = DelegationToken("id", "User:ann", "User:admin", ("User:bob",), 0, 0, 0)
TOKEN = issued(WISH, -1, LIFETIMES, NOW_MS)
PASSWORD = (
    "hfkA5IOMNM3MQqn31yPNNejJf/qk4zPqKt1Eof42eUSTY4iG2iJ+/dXcXNceEJu9mvotcYne4k31zqMUkMXA4A=="
)


@pytest.mark.parametrize(
    ("wanted_ms", "expires_ms", "ends_ms"),
    [
        (-1, 24 * HOUR_MS, 168 * HOUR_MS),
        (0, 24 * HOUR_MS, 168 * HOUR_MS),
        (48 * HOUR_MS, 24 * HOUR_MS, 48 * HOUR_MS),
        (HOUR_MS, HOUR_MS, HOUR_MS),
        (LAST_MS, 24 * HOUR_MS, 168 * HOUR_MS),
    ],
)
def test_a_token_lasts_as_wished_but_no_longer_than_brokers_allow(
    wanted_ms: int, expires_ms: int, ends_ms: int
) -> None:
    token = issued(WISH, wanted_ms, LIFETIMES, NOW_MS)

    assert token.issued_ms == NOW_MS
    assert (token.expires_ms - NOW_MS, token.ends_ms - NOW_MS) == (expires_ms, ends_ms)


def test_no_setting_makes_a_time_that_a_node_cannot_hold() -> None:
    token = issued(WISH, -1, Lifetimes(LAST_MS, LAST_MS), NOW_MS)

    assert (token.expires_ms, token.ends_ms) == (LAST_MS, LAST_MS)


@pytest.mark.parametrize(
    ("period_ms", "expires_ms"),
    [
        (-1, 25 * HOUR_MS),
        (0, HOUR_MS),
        (5, HOUR_MS + 5),
        (200 * HOUR_MS, 168 * HOUR_MS),
        (LAST_MS, 168 * HOUR_MS),
    ],
)
def test_a_renewal_counts_from_now_and_never_beyond_the_end(
    period_ms: int, expires_ms: int
) -> None:
    for principal in ("User:ann", "User:bob"):
        token = renewed(TOKEN, principal, period_ms, LIFETIMES, NOW_MS + HOUR_MS)
        assert token == TOKEN._replace(expires_ms=NOW_MS + expires_ms)


def test_an_end_is_brought_forward_to_now_or_to_a_time() -> None:
    assert shortened(TOKEN, "User:bob", -1, NOW_MS) is None
    assert shortened(TOKEN, "User:bob", 7, NOW_MS) == TOKEN._replace(expires_ms=NOW_MS + 7)


@pytest.mark.parametrize("principal", ["User:zoe", "User:admin", "Group:ann", "User:ANN", ""])
def test_strangers_and_whoever_asked_for_a_token_do_not_change_it(principal: str) -> None:
    for period_ms in (-1, 0, 5):
        with pytest.raises(KafkaError) as caught:
            renewed(TOKEN, principal, period_ms, LIFETIMES, NOW_MS)
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        with pytest.raises(KafkaError) as caught:
            shortened(TOKEN, principal, period_ms, NOW_MS)
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_an_expired_token_is_not_renewed_but_can_be_ended() -> None:
    late_ms = TOKEN.expires_ms + 1

    assert not TOKEN.has_expired(TOKEN.expires_ms)
    assert TOKEN.has_expired(late_ms)
    assert TOKEN._replace(expires_ms=LAST_MS).has_expired(TOKEN.ends_ms + 1)
    with pytest.raises(KafkaError) as caught:
        renewed(TOKEN, "User:ann", HOUR_MS, LIFETIMES, late_ms)
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_EXPIRED
    with pytest.raises(KafkaError):
        shortened(TOKEN, "User:ann", 5, late_ms)
    assert shortened(TOKEN, "User:ann", -1, late_ms) is None


def test_a_token_concerns_its_owner_who_asked_and_renewers() -> None:
    for principal in ("User:ann", "User:admin", "User:bob"):
        assert TOKEN.concerns({principal, "User:zoe"})
    assert not TOKEN.concerns({"User:zoe"})


def test_a_signature_is_that_of_kafka() -> None:
    # HMAC-SHA512, as `openssl dgst -sha512 -hmac secret` makes it of the same id.
    signed = signature(b"secret", "W4hGMCCoQVuLkyITclJg3w")

    assert len(signed) == 64
    assert password(signed) == PASSWORD
    assert signature(b"other", "W4hGMCCoQVuLkyITclJg3w") != signed
