"""DelegationTokenManager: the delegation tokens of the cluster, at one broker (KIP-48).

Law: any broker makes, renews and ends tokens, as in Kafka's ZooKeeper mode; what it has done it
knows when it answers, others with the notification. The controller removes those that have expired.
Signatures are made of ids and the secret, and stored nowhere: with another secret all tokens are
signed again, and no former signature is known.

Owned by the event loop; any thread may ask `find`.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Callable, Iterator

from kbroker.admin.followed_nodes import FollowedNodes, Reading
from kbroker.admin.tree_unavailable import patiently
from kbroker.clock import ClockWithTimer, TimerHandle
from kbroker.config.delegation_token_settings import DelegationTokenSettings
from kbroker.delegation_tokens import delegation_token
from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.errors import ErrorCode, KafkaError
from kbroker.slices import slices
from kbroker.turns import turn
from kbroker.zk import zk_paths
from kbroker.zk.nodes.delegation_token_znodes import decode_change
from kbroker.zk.nodes.delegation_tokens import Change, ZkDelegationTokens
from kbroker.zk.tree import BadVersionError, NodeTooLargeError
from kbroker.zk.zk_utils import ZkUtils
from kbroker.zk.zk_watchers import RepeatedReading
from kbroker.zk.znode_json import ZnodeFormatError

_log = logging.getLogger(__name__)

RENEWERS_MAX = 100  # of a token: to read and to show some of those is a few milliseconds
_LOOK_MS = 5_000  # whether this broker has become the controller
_AT_ONCE = 64


class DelegationTokenManager:
    """The tokens of one cluster."""

    def __init__(
        self,
        zk: ZkUtils,
        clock: ClockWithTimer,
        settings: DelegationTokenSettings,
        is_controller: Callable[[], bool],
    ) -> None:
        self._zk = zk
        self._clock = clock
        self._settings = settings
        self._is_controller = is_controller
        self._stored = ZkDelegationTokens(zk)
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}  # by signature
        self._followed = FollowedNodes(
            "delegation tokens",
            zk.tree,
            [zk_paths.DELEGATION_TOKEN_CHANGES],
            Reading(self._read_some, self._read_all, decode_change),
            clock,
        )
        self._removing = RepeatedReading("expired delegation tokens", self.remove_expired)
        self._timer: TimerHandle | None = None
        self._due_ms: float | None = None  # None: this broker was not controller

    async def start(self) -> None:
        """Read all tokens, and follow their changes. Raises TreeError."""
        await self._stored.create_paths()
        await self._followed.start()
        self._removing.start()
        self._look()

    async def stop(self) -> None:
        """Follow changes no longer."""
        if self._timer is not None:
            self._timer.cancel()
        await self._removing.stop()
        await self._followed.stop()

    @property
    def count(self) -> int:
        """How many tokens there are."""
        return len(self._tokens)

    def find(self, token_id: str) -> DelegationToken | None:
        return self._tokens.get(token_id)

    def every(self) -> Iterator[DelegationToken]:
        """All tokens that there are now, however they change meanwhile."""
        return iter(list(self._tokens.values()))

    def signature(self, token_id: str) -> bytes:
        """Sign a token with the secret of the brokers."""
        return delegation_token.signature(self._settings.secret, token_id)

    async def create(
        self, owner: str, requester: str, renewers: tuple[str, ...], longest_ms: int
    ) -> DelegationToken:
        """Make a token. Raises KafkaError."""
        if len(renewers) > RENEWERS_MAX:
            raise _too_many_renewers()
        token_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        wish = DelegationToken(token_id, owner, requester, renewers, 0, 0, 0)
        lifetimes, now_ms = self._settings.lifetimes, self._clock.now_ms()
        token = delegation_token.issued(wish, longest_ms, lifetimes, now_ms)
        await self._change(token_id, lambda _: token)
        _log.info("%s has made delegation token %s for %s", requester, token_id, owner)
        return token

    async def renew(self, principal: str, signed: bytes, period_ms: int) -> int:
        """Put off the end of a token, or bring it forward; returns when it is now. Raises
        KafkaError.
        """

        def change(before: DelegationToken) -> DelegationToken:
            lifetimes, now_ms = self._settings.lifetimes, self._clock.now_ms()
            return delegation_token.renewed(before, principal, period_ms, lifetimes, now_ms)

        token_id = self._id_of(signed)
        token = await self._change_found(token_id, change)
        _log.info("%s has renewed delegation token %s", principal, token_id)
        assert token is not None
        return token.expires_ms

    async def expire(self, principal: str, signed: bytes, period_ms: int) -> int:
        """Bring the end of a token forward; returns that. Raises KafkaError."""

        def change(before: DelegationToken) -> DelegationToken | None:
            now_ms = self._clock.now_ms()
            return delegation_token.shortened(before, principal, period_ms, now_ms)

        token_id = self._id_of(signed)
        token = await self._change_found(token_id, change)
        _log.info("%s has set the end of delegation token %s", principal, token_id)
        return self._clock.now_ms() if token is None else token.expires_ms

    async def remove_expired(self) -> None:
        """Remove the tokens that nobody can use any more. Raises TreeError."""
        for some in slices(self.every(), _AT_ONCE):
            await turn()
            for token in some:
                if token.has_expired(self._clock.now_ms()):
                    await self._remove_if_expired(token.token_id)
                    await turn()

    async def _remove_if_expired(self, token_id: str) -> None:
        def change(before: DelegationToken | None) -> DelegationToken | None:
            if before is None or before.has_expired(self._clock.now_ms()):
                return None
            return before  # somebody has renewed it just now

        try:
            after = await self._stored.change(token_id, change)
        except ZnodeFormatError as error:
            self._zk.report(error)
        else:
            await self._followed.read([token_id])
            if after is None:
                _log.info("delegation token %s has expired", token_id)

    def _id_of(self, signed: bytes) -> str:
        token_id = self._ids.get(signed)
        if token_id is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token_id

    async def _change_found(
        self, token_id: str, change: Callable[[DelegationToken], DelegationToken | None]
    ) -> DelegationToken | None:
        def change_found(before: DelegationToken | None) -> DelegationToken | None:
            if before is None:  # somebody has removed it just now
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            return change(before)

        return await self._change(token_id, change_found)

    async def _change(self, token_id: str, change: Change) -> DelegationToken | None:
        """Change a token. This broker knows it when this returns."""

        async def changed() -> DelegationToken | None:
            after = await self._stored.change(token_id, change)
            await self._followed.read([token_id])
            return after

        try:
            return await patiently(self._zk.tree, changed)
        except ZnodeFormatError as error:
            self._zk.report(error)
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND) from error
        except NodeTooLargeError as error:
            raise _too_many_renewers() from error
        except BadVersionError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT) from error

    async def _read_some(self, token_ids: list[str]) -> None:
        for some in slices(token_ids, _AT_ONCE):
            for token_id, token in (await self._stored.read(some)).items():
                self._put(self._tokens, self._ids, token_id, token)
            if len(token_ids) > len(some):
                await turn()

    async def _read_all(self) -> None:
        """Read them aside: those who log in are judged by the former ones meanwhile."""
        tokens: dict[str, DelegationToken] = {}
        ids: dict[bytes, str] = {}
        async for some in self._stored.every():
            for token_id, token in some.items():
                self._put(tokens, ids, token_id, token)
            await turn()
        self._tokens, self._ids = tokens, ids

    def _put(
        self,
        tokens: dict[str, DelegationToken],
        ids: dict[bytes, str],
        token_id: str,
        token: DelegationToken | None,
    ) -> None:
        signed = self.signature(token_id)
        if token is None:
            tokens.pop(token_id, None)
            ids.pop(signed, None)
        else:
            tokens[token_id] = token
            ids[signed] = token_id

    def _look(self) -> None:
        """Remove what has expired if it is time: at once as the new controller, as in Kafka."""
        interval_ms = self._settings.check_interval_ms
        self._timer = self._clock.call_later(min(_LOOK_MS, interval_ms), self._look)
        now_ms = self._clock.monotonic_ms()
        if not self._is_controller():
            self._due_ms = None
        elif self._due_ms is None or now_ms >= self._due_ms:
            self._due_ms = now_ms + interval_ms
            self._removing.again()


def _too_many_renewers() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "It has too many renewers")
