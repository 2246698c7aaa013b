"""BrokerLogins: the logins at all listeners of a broker that ask for one.

Law: a login counts by the settings in force when it begins. Settings that cannot be used leave the
former ones in force.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kbroker.admin.credential_cache import CredentialCache
from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.apis.api_versions import unsupported_version_response
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.registry import registered
from kbroker.clock import Clock
from kbroker.config.http_access import PASSWORD_MECHANISMS
from kbroker.config.kafka_config import ORIGIN_DEFAULT, KafkaConfig
from kbroker.config.oauthbearer_settings import OAUTHBEARER
from kbroker.config.sasl_settings import sasl_settings
from kbroker.errors import ConfigError, ErrorCode, ProtocolError
from kbroker.network.connection_login import ListenerLogins
from kbroker.protocol.codec import decode
from kbroker.protocol.header import API_VERSIONS_KEY, RequestHeader, decode_request_header
from kbroker.protocol.messages.api_versions import ApiVersionsResponse
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.schema import Message
from kbroker.sasl.client_login import NONCE_BYTES
from kbroker.sasl.exchange import Identity, LoginRefusedError
from kbroker.sasl.login import Login
from kbroker.sasl.login_gate import LoginGate, Moment, Offer
from kbroker.sasl.password_login import identity_of
from kbroker.sasl.scram_keys import ScramCredential, ScramMechanism
from kbroker.server.background.fair_threads import FairThreads
from kbroker.server.broker.broker_principals import BrokerPrincipals
from kbroker.server.broker.first_user import add_first_user
from kbroker.server.broker.login_offers import FindToken, LoginMeans, judge_of, offers_of
from kbroker.zk import zk_paths
from kbroker.zk.nodes.login_secret import login_secret
from kbroker.zk.zk_utils import ZkUtils

if TYPE_CHECKING:
    from kbroker.tokens.listener_judge import ListenerJudge

_log = logging.getLogger(__name__)

_FRAME_BYTES_MAX = 64 * 1024  # before a login; Kafka's default is 512 KiB
_SIZE_SETTING = "sasl.server.max.receive.size"
_SECRET_BYTES = 32
_THREADS = 8  # for judges that take their time


class PasswordCheck(NamedTuple):
    """The mechanism by which a password lets in a user, and this user's name; None, and the reason,
    if none does.
    """

    mechanism: str | None
    reason: str
    name: str = ""


class BrokerLogins:
    """The logins of one broker."""

    def __init__(self, config: Callable[[], KafkaConfig], services: Services, clock: Clock) -> None:
        """`config` returns the settings in force; ApiVersions are answered with `services`."""
        self._config = config
        self._services = services
        self._clock = clock
        self._credentials = CredentialCache()
        self._find_token = self._token_finder()
        self._secret = b""
        self._judges: dict[str, ListenerJudge] = {}
        self._threads = FairThreads(_THREADS, "login")
        self._password_thread = FairThreads(1, "password")  # more would take the loop's processor
        self._offers: dict[str, _OffersInForce] = {}
        self._principals: dict[str, BrokerPrincipals] = {}
        self._settings_changes = 0

    def follow(self, dynamic_configs: DynamicConfigManager) -> None:
        """Learn of all users with its start, and of their changes."""

        def count(*_: object) -> None:
            self._settings_changes += 1

        dynamic_configs.add_handler(zk_paths.USER_CONFIGS, self._credentials.user_changed)
        dynamic_configs.add_handler(zk_paths.BROKER_CONFIGS, count)

    @property
    def changes(self) -> int:
        """How often anything has changed that passwords are checked by; any thread may ask."""
        return self._credentials.changes + self._settings_changes

    async def start(self, zk: ZkUtils) -> None:
        """Read what the brokers of the cluster share, and the keys of tokens, before anybody logs
        in: a client takes a refusal for the last word.
        """
        first_user = self._config().kbroker.kbroker_first_user
        if first_user is not None:
            await add_first_user(zk, first_user)
        self._secret = await login_secret(zk, secrets.token_bytes(_SECRET_BYTES))
        config = self._config()
        for end_point in config.end_points():
            listener = end_point.listener_name
            takes_logins = end_point.security_protocol.startswith("SASL_")
            if takes_logins and OAUTHBEARER in sasl_settings(config, listener).mechanisms:
                await asyncio.to_thread(self._judge(listener).read_once)

    def stop(self) -> None:
        """End the threads when they have done what they do; nobody waits for them."""
        self._threads.leave()
        self._password_thread.leave()
        for judge in self._judges.values():
            judge.close()

    def at(self, listener: str) -> ListenerLogins:
        """The logins at a listener. Raises ConfigError."""
        means = LoginMeans(self._credentials.find, self._make_up, self._judge, self._find_token)
        offers = self._offers[listener] = _OffersInForce(self._config, listener, means)
        principals = self._principals[listener] = BrokerPrincipals(self._config(), listener)

        def let_in(connection: ConnectionInfo, identity: Identity) -> None:
            connection.has_token = identity.is_token
            principals.settle(connection, identity.name)
            if identity.owner not in (None, connection.principal):
                raise ProtocolError(
                    f"it has a token of {identity.owner}, and is {connection.principal} here"
                )

        return ListenerLogins(
            begin=lambda connection: LoginGate(offers.now(), partial(self._versions, connection)),
            let_in=let_in,
            refuse=_refused,
            run=self._threads.run,
            now=self._moment,
            steady_ms=self._clock.monotonic_ms,
            max_frame_bytes=_max_frame_bytes(self._config(), listener),
        )

    async def check_password(
        self, listener: str, asker: str, username: str, password: str
    ) -> PasswordCheck:
        """Check a name and a password that did not come by SASL as the listener would, on a thread,
        of which askers take turns.
        """
        offers = self._offers[listener].now()
        work = partial(_password_check, offers, username, password)
        found: PasswordCheck = await self._password_thread.run(asker, work)
        return found

    def settle(self, connection: ConnectionInfo, login_name: str) -> None:
        """Give somebody who has logged in by another way than SASL the principal that this user has
        at the listener. Raises ProtocolError if there is none.
        """
        self._principals[connection.listener_name].settle(connection, login_name)

    def _token_finder(self) -> FindToken | None:
        if self._services.tokens is None:
            return None
        from kbroker.admin.token_users import TokenUsers  # few brokers have tokens

        return TokenUsers(self._services.tokens, self._make_up).find

    def _make_up(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        return self._credentials.made_up.credential(self._secret, mechanism, name)

    def _judge(self, listener: str) -> ListenerJudge:
        """The judge of a listener's tokens, the same as long as the broker runs: as in Kafka, its
        settings do not change meanwhile.
        """
        judge = self._judges.get(listener)
        if judge is None:
            judge = self._judges[listener] = judge_of(self._config(), listener, self._clock)
            judge.start()
        return judge

    def _moment(self) -> Moment:
        return Moment(self._clock.now_ms(), int(self._clock.monotonic_ms()))

    def _versions(
        self, connection: ConnectionInfo, header: RequestHeader, body: memoryview
    ) -> Message:
        api = registered()[API_VERSIONS_KEY]
        if header.api_version not in api.versions:
            return unsupported_version_response(api)
        request, _ = decode(api.request_class, header.api_version, body, 0)
        answer: Message = api.handler(RequestContext(header, connection, self._services), request)
        return answer


class _OffersInForce:
    """The offers of one listener, made again when settings have changed."""

    def __init__(self, config: Callable[[], KafkaConfig], listener: str, means: LoginMeans) -> None:
        self._config = config
        self._listener = listener
        self._means = means
        self._made_of = config()
        self._offers = offers_of(self._made_of, listener, means)

    def now(self) -> Mapping[str, Offer]:
        config = self._config()
        if config is not self._made_of:
            self._made_of = config
            try:
                self._offers = offers_of(config, self._listener, self._means)
            except ConfigError as error:
                _log.error("the logins of listener %s stay as they are: %s", self._listener, error)
        return self._offers


def _password_check(offers: Mapping[str, Offer], username: str, password: str) -> PasswordCheck:
    """Try all mechanisms before a refusal, so that each refusal takes as long as others."""
    reason = "no mechanism of the listener takes passwords"
    for mechanism in PASSWORD_MECHANISMS:
        offer = offers.get(mechanism)
        if offer is None:
            continue
        login = Login(mechanism=mechanism, username=username, password=password)
        try:
            identity = identity_of(login, offer.begin(), secrets.token_urlsafe(NONCE_BYTES))
        except LoginRefusedError as refused:
            reason = f"{refused}: check user and password"
        else:
            return PasswordCheck(mechanism, "", identity.name)
    return PasswordCheck(None, reason)


def _refused(header: RequestHeader, frame: memoryview, code: ErrorCode) -> Message | None:
    api = registered().get(header.api_key)
    if header.api_key == API_VERSIONS_KEY:
        return ApiVersionsResponse(error_code=code)
    if api is None or header.api_version not in api.versions:
        raise ProtocolError(f"API key {header.api_key} version {header.api_version} amid a login")
    offset = decode_request_header(frame)[1]
    request, _ = decode(api.request_class, header.api_version, frame, offset)
    if getattr(request, "acks", None) == 0:
        return None
    return request.error_response(code, header.api_version)


def _max_frame_bytes(config: KafkaConfig, listener: str) -> int:
    name, _ = config.listener_setting(_SIZE_SETTING, listener)
    if config.origin(name) == ORIGIN_DEFAULT:
        return _FRAME_BYTES_MAX
    return sasl_settings(config, listener).max_receive_bytes
