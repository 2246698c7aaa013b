"""A start as its operator asks for it: from options to settings, and until a signal or a failure
ends it. Everything that runs brokers in a process of their own uses it.

Law: nothing is printed and no environment is read here, so that tests and the command line start a
broker by the same code: sentences go to a `Hearer`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kbroker import start_collections
from kbroker.config.http_addresses import HTTP_LISTENERS
from kbroker.config.properties_file import parse_properties
from kbroker.errors import ConfigError, ExplainedError, Trouble, trouble_of
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.temporary_file_system import TemporaryFileSystem
from kbroker.model import EndPoint
from kbroker.server.broker.log_loading import WatchLoading, nobody_watches
from kbroker.server.start.event_loop import EventLoopKind, run_on_loop
from kbroker.server.start.hangup import follow_hangups
from kbroker.server.start.settings_sources import (
    JAVA_OPTIONS,
    LoadedSettings,
    SettingSources,
    environment_settings,
    load_settings,
    parse_overrides,
)
from kbroker.server.start_error import StartError
from kbroker.zk.embedded.tree_journal import CorruptTreeError
from kbroker.zk.tree import TreeUnavailableError

if TYPE_CHECKING:
    from kbroker.server.broker.kafka_server import KafkaServer
    from kbroker.server.start.local_cluster import LocalCluster
    from kbroker.server.start.secure_directory import SecureDirectory


class UsageError(ExplainedError):
    """Such a start makes no sense; the message is one sentence for whoever asked for it."""


class LaunchError(ExplainedError):
    """A broker did not start, or could not go on; the message is one sentence for its operator."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StartOptions:
    """The options of a start; the defaults are those of `kbroker start`."""

    properties: str | None = None  # path of a properties file
    profile: str | None = None
    listen: Sequence[str] = ()  # HOST:PORT
    data: str | None = None  # None: a temporary directory, unless a setting names one
    overrides: Sequence[str] = ()  # KEY=VALUE
    zookeeper: str | None = None  # HOST:PORT/chroot
    brokers: int = 1
    adopt: bool = False
    is_open: bool = False  # other machines may come in without a login
    secure: str | None = None  # directory of certificates and of the first user's login


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Launch:
    """The broker or brokers to be started."""

    settings: LoadedSettings
    brokers: int = 1
    adopt: bool = False
    temporary: str | None = None  # the data directory that is removed at the end
    secured: SecureDirectory | None = None

    def note_of_data(self) -> str | None:
        """A note about data that is deleted at the end; None if it stays."""
        if self.temporary is None:
            return None
        is_ensemble = bool(self.settings.config.zk.zookeeper_connect)
        left = ", but ZooKeeper keeps its topics" if is_ensemble else ""
        return f"data in {self.temporary}, removed at the end{left} (keep it with --data DIR)"

    def note_of_addresses(self) -> str | None:
        """A note about the addresses that clients get; None if those are the ones listened on."""
        config = self.settings.config
        if config.kbroker.kbroker_advertise is not None:
            return f"clients are given {config.kbroker.kbroker_advertise} (kbroker.advertise)"
        if config.advertised_end_points() == config.end_points():
            return None
        given = ",".join(map(str, config.advertised_end_points()))
        return f"clients are given {given} (advertised.listeners)"

    def warnings(self) -> tuple[str, ...]:
        """A line for each setting without effect, and for each thing that is obeyed but said."""
        from kbroker.server.start.start_refusals import warnings_of

        return (*self.settings.warnings, *warnings_of(self.settings.config))

    def note_of_login(self) -> str | None:
        """A note about the login to use; None if the start has made none."""
        if self.secured is None:
            return None
        made = f"made {', '.join(self.secured.made)}\n" if self.secured.made else ""
        rights = "others may do what `kbroker acl allow` lets them"
        return f"{made}log in with --command-config {self.secured.admin_file}; {rights}"

    def note_of_console_login(self) -> str | None:
        """A note about who can log in at the console; None if the start has made nobody."""
        if self.secured is None:
            return None
        return f"log in as admin, with the password in {self.secured.admin_file}"

    def note_of_controllers(self) -> str | None:
        """A note about listeners that are not served; None if all are."""
        names = self.settings.config.left_out_listeners()
        if not names:
            return None
        return (
            f"not listening for {', '.join(names)} (controller.listener.names): kbroker has no "
            "KRaft controller"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Hearer:
    """Calls for whoever waits for the outcome of a start."""

    ready: Callable[[Sequence[EndPoint]], None]  # the end points that serve clients
    adopted: Callable[[str], None] = lambda _: None  # a few lines about what was adopted
    watch_loading: WatchLoading = nobody_watches
    http: Callable[[Sequence[EndPoint]], None] = lambda _: None  # the end points of HTTP, if any


def settings_for(options: StartOptions, environment: Mapping[str, str]) -> LoadedSettings:
    """The settings that such a start would use. Raises UsageError."""
    return _load(options, environment, _chosen(options))


@contextmanager
def prepared(options: StartOptions, environment: Mapping[str, str]) -> Iterator[Launch]:
    """Yield the start asked for. If it names no data directory, a temporary one exists for as long
    as this context lasts. Raises UsageError.
    """
    secured = None if options.secure is None else _secured(options, environment)
    chosen = _chosen(options, None if secured is None else secured.settings)
    settings = _load(options, environment, chosen)
    _check(settings, options)
    if _names_data_directory(settings):
        _check_adoption(options, settings)
        yield Launch(
            settings=settings, brokers=options.brokers, adopt=options.adopt, secured=secured
        )
        return
    if options.adopt:
        raise UsageError("--adopt needs the directory to take over: --data DIR")
    import shutil  # these two load a megabyte of modules, only needed here
    import tempfile

    temporary = tempfile.mkdtemp(prefix="kbroker-")
    try:
        settings = _load(options, environment, {**chosen, "log.dirs": temporary})
        yield Launch(
            settings=settings, brokers=options.brokers, temporary=temporary, secured=secured
        )
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def run_until_signal(
    launch: Launch, hearer: Hearer, wait_for_end: Callable[[], None] | None = None
) -> None:
    """Start, serve, and stop on SIGTERM or Ctrl-C, or when `wait_for_end`, called on a thread,
    returns. The process is the broker's own.

    Raises AdoptionNeededError, and LaunchError for anything else that its operator can fix.
    """
    kind = EventLoopKind(launch.settings.config.kbroker.kbroker_loop)
    try:
        run_on_loop(_serve_until_signal(launch, hearer, wait_for_end), kind)
    except (
        ConfigError, LogDirectoryError, StartError, TreeUnavailableError, CorruptTreeError,
    ) as error:  # fmt: skip
        raise LaunchError(str(error), trouble_of(error)) from error


async def serve(
    server: KafkaServer | LocalCluster, stop: asyncio.Event, ready: Callable[[], None]
) -> None:
    """Start, call `ready`, and run until `stop` is set. Raises as `startup`, or the reason why the
    server, which has stopped then, could not go on.
    """
    starting = asyncio.create_task(server.startup(), name="startup")
    stopping = asyncio.create_task(stop.wait(), name="stop signal")
    failing = asyncio.create_task(server.failed.wait(), name="failure")
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if starting.done():
            starting.result()
            ready()
            await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
        else:
            starting.cancel()  # asked to stop before the start was over
            await asyncio.wait({starting})
    finally:
        stopping.cancel()
        failing.cancel()
        await server.shutdown()
    if server.failure is not None:
        raise server.failure


def server_of(launch: Launch, hearer: Hearer) -> KafkaServer | LocalCluster:
    """Make what is to be started, without starting it. Raises ConfigError."""
    settings = launch.settings
    files = RealFileSystem() if launch.temporary is None else TemporaryFileSystem()
    if launch.brokers == 1:
        # Imported here, so that a wrong option is refused first.
        from kbroker.server.broker.kafka_server import KafkaServer
        from kbroker.server.broker.surroundings import Surroundings

        return KafkaServer(
            settings.config,
            cluster_id=settings.cluster_id,
            file_system=files,
            adopt=hearer.adopted if launch.adopt else None,
            around=Surroundings(watch_loading=hearer.watch_loading),
        )
    from kbroker.server.start.local_cluster import LocalCluster
    from kbroker.server.start.local_configs import configs_of_brokers

    return LocalCluster(
        configs_of_brokers(settings.config, launch.brokers),
        settings.config.log.data_directories()[0],
        cluster_id=settings.cluster_id,
        file_system=files,
        watch_loading=hearer.watch_loading,
    )


def _refuse_taken_addresses(settings: LoadedSettings) -> None:
    """Check the ports before a data directory is made, so that a wrong one leaves none behind. With
    existing directories, their own errors come first. Raises ConfigError.
    """
    config = settings.config
    if all(os.path.exists(path) for path in config.log.data_directories()):
        return
    from kbroker.network.acceptor import check_address

    for end_point in config.end_points():
        check_address(end_point)
    if config.is_http_asked_for():
        for end_point in config.http_end_points():
            check_address(end_point, HTTP_LISTENERS)


async def _serve_until_signal(
    launch: Launch, hearer: Hearer, wait_for_end: Callable[[], None] | None
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if wait_for_end is not None:
        _set_after(wait_for_end, stop)
    _refuse_taken_addresses(launch.settings)
    server = server_of(launch, hearer)
    follow_hangups(server.read_certificates_again, stop.set)

    def ready() -> None:
        start_collections.started()
        hearer.ready(server.end_points)
        if server.http_end_points:
            hearer.http(server.http_end_points)

    await serve(server, stop, ready)


def _set_after(wait_for_end: Callable[[], None], stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def wait() -> None:
        wait_for_end()
        with suppress(RuntimeError):  # the loop was closed while this waited: it has stopped
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait, name="wait for the end", daemon=True).start()


# ---- options


def _chosen(options: StartOptions, secured: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings that options stand for, by name; `secured` are those of a secure directory.
    Raises UsageError.
    """
    chosen = {**_listeners(options.listen), **(secured or {})}
    if options.is_open:
        chosen["kbroker.open.listeners"] = "true"
    if options.data is not None:
        if not options.data.strip():  # as an unset variable in a script gives it
            raise UsageError("--data is empty: give a directory")
        chosen["log.dirs"] = _absolute(options.data)
    chosen |= _parsed_overrides(options)
    if options.zookeeper is not None:
        if not options.zookeeper.strip():
            raise UsageError("--zookeeper is empty: give HOST:PORT/chroot")
        _check_ensemble(options.zookeeper)
        chosen["zookeeper.connect"] = options.zookeeper
    return chosen


def _parsed_overrides(options: StartOptions) -> dict[str, str]:
    try:
        return parse_overrides(options.overrides)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _secured(options: StartOptions, environment: Mapping[str, str]) -> SecureDirectory:
    """The secure directory, made after all else of the start has been found right. Raises
    UsageError.
    """
    from kbroker.certificates.certificate_directory import CertificateDirectoryError
    from kbroker.server.start.secure_directory import (
        DEFAULT_ADDRESSES,
        hosts_of_clients,
        listeners_at,
        secure_directory,
    )

    assert options.secure is not None
    if not options.secure.strip():
        raise UsageError("--secure is empty: give a directory")
    if options.is_open:
        raise UsageError("--secure and --open exclude each other: remove one")
    written = {**_from_file(options), **environment_settings(environment)[0]}
    overrides = _parsed_overrides(options)
    if "listeners" in overrides or ("listeners" in written and not options.listen):
        raise UsageError("--secure makes the listeners: give their addresses by --listen alone")
    _listeners(options.listen)  # each is HOST:PORT
    addresses = options.listen or DEFAULT_ADDRESSES
    open_settings = {**listeners_at(addresses, "PLAINTEXT"), "kbroker.open.listeners": "true"}
    if not {"kbroker.http.token", "kbroker.http.token.file"} & {*written, *overrides}:
        open_settings["kbroker.http.token"] = "not used"  # there will be logins
    settings = _load(options, environment, _chosen(options, open_settings))
    _check(settings, options)
    try:
        return secure_directory(
            os.path.expanduser(options.secure),
            addresses,
            hosts=hosts_of_clients(settings.config),
            machine=socket.gethostname(),
            now=datetime.now(UTC),
            written=written,
        )
    except (CertificateDirectoryError, ConfigError) as error:
        raise UsageError(f"--secure: {error}", trouble_of(error)) from error


def _check_ensemble(connect: str) -> None:
    # Only with an ensemble: kazoo's cost.
    from kbroker.zk.ensemble.kazoo_tree import parse_connect

    try:
        parse_connect(connect)
    except ValueError as error:
        raise UsageError(f"--zookeeper {error}") from error


def _listeners(addresses: Sequence[str]) -> dict[str, str]:
    for address in addresses:
        if not address.rpartition(":")[2].isdecimal() or ":" not in address:
            hint = f", did you mean :{address}?" if address.isdecimal() else ""
            raise UsageError(f"--listen '{address}' is not HOST:PORT{hint}")
    if not addresses:
        return {}
    names = ["PLAINTEXT", *[f"PLAINTEXT{number}" for number in range(2, len(addresses) + 1)]]
    pairs = zip(names, addresses, strict=True)
    chosen = {"listeners": ",".join(f"{name}://{address}" for name, address in pairs)}
    if len(addresses) > 1:
        chosen["listener.security.protocol.map"] = ",".join(f"{name}:PLAINTEXT" for name in names)
    return chosen


def _absolute(path: str) -> str:
    """The path from the root; `..` stays, because a link may precede it."""
    found = os.path.join(os.getcwd(), os.path.expanduser(path))
    return found if ".." in found.split(os.sep) else os.path.normpath(found)


def _load(
    options: StartOptions, environment: Mapping[str, str], chosen: Mapping[str, str]
) -> LoadedSettings:
    from_file = _from_file(options)
    try:
        return load_settings(
            SettingSources(
                profile=options.profile,
                properties=from_file,
                environment=environment,
                logins=logins_in(environment),
                overrides=chosen,
            )
        )
    except ConfigError as error:
        is_of_file = any(name in str(error) for name in from_file)
        path = options.properties
        hint = f" (`kbroker config check {path}` looks at the whole file)" if is_of_file else ""
        raise UsageError(f"{error}{hint}", trouble_of(error)) from error


def _check(settings: LoadedSettings, options: StartOptions) -> None:
    """Refuse what a start would refuse later, after making its data directory."""
    # A start loads this anyway; whoever asks for settings alone need not wait for it.
    from kbroker.server.start.start_refusals import open_end_points, refusals_of

    for refusal in refusals_of(settings.config, is_cluster=options.brokers > 1):
        raise UsageError(str(refusal), trouble_of(refusal))
    asked = _listeners(options.listen).get("listeners")
    found = open_end_points(settings.config)
    if found and settings.config.texts.get("listeners") == asked:
        raise UsageError(
            f"--listen {str(found[0]).partition('://')[2]} lets in everybody who reaches it: "
            "--secure DIR asks for logins, --open says that it is meant",
            Trouble.OPEN_LISTENER,
        )


def _from_file(options: StartOptions) -> dict[str, str]:
    return {} if options.properties is None else properties_in(options.properties)


def properties_in(path: str) -> dict[str, str]:
    """Return the settings of a properties file. Raises UsageError if it cannot be read."""
    return parse_properties(_text_of(path))


def logins_in(environment: Mapping[str, str]) -> str | None:
    """The text of the file that KAFKA_OPTS names for logins, as Apache Kafka's users have it; None
    if it names none. Raises UsageError.
    """
    options = environment.get(JAVA_OPTIONS)
    if options is None:
        return None
    from kbroker.server.start.java_options import parse_java_options  # for few starts

    path = parse_java_options(options).login_file
    return None if path is None else _text_of(path, f" ({JAVA_OPTIONS} names it)")


def _text_of(path: str, why: str = "") -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {path}{why}: {reason}") from error


def _names_data_directory(settings: LoadedSettings) -> bool:
    """Return whether any source names the data directory, other than Kafka's default."""
    return bool({"log.dirs", "log.dir"} & set(settings.config.texts))


def _check_adoption(options: StartOptions, settings: LoadedSettings) -> None:
    if options.adopt and (options.brokers > 1 or settings.config.zk.zookeeper_connect):
        raise UsageError(
            "--adopt turns a directory into that of a single broker: leave out --brokers and "
            "--zookeeper (a broker of an ensemble uses a directory of its cluster as it is)"
        )
    for path in settings.config.log.data_directories():
        if options.adopt and not os.path.isdir(path):
            raise UsageError(f"--adopt takes over what is in a directory, and {path} is not there")
