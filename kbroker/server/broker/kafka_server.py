"""KafkaServer: a broker that can be started and stopped. The composition root; no logic of its own.

A start has three stages, each a value with all that exists by then: `BrokerStorage`, `BrokerParts`,
`RunningBroker`. Each step says how it is undone; a stop, or a start that fails half way, undoes the
steps from the last to the first.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from kbroker.config.kafka_config import KafkaConfig
from kbroker.counters import CounterRegistry, Sample
from kbroker.events.history import Noted
from kbroker.http.health import Check
from kbroker.http.http_server import HttpServer
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import FileSystem, RealFileSystem
from kbroker.log.disk.open_files import open_files_of
from kbroker.model import UNKNOWN_BROKER_EPOCH, EndPoint, TopicPartition
from kbroker.server.broker.broker_health import checks_of
from kbroker.server.broker.broker_http import Looks, http_server_of
from kbroker.server.broker.broker_parts import BrokerParts, make_parts
from kbroker.server.broker.broker_state import BrokerState
from kbroker.server.broker.broker_storage import open_storage
from kbroker.server.broker.file_limit import raise_file_limit
from kbroker.server.broker.machine_memory import present_boot_id
from kbroker.server.broker.running_broker import RunningBroker, run_parts
from kbroker.server.broker.surroundings import Surroundings
from kbroker.server.broker.tree_opening import RequestedStart, tree_of
from kbroker.server.membership.controlled_shutdown import ControlledShutdown
from kbroker.server.metadata_tree.cluster_tree import ClusterTree
from kbroker.server.start_error import StartError
from kbroker.zk.tree import TreeError

if TYPE_CHECKING:
    from kbroker.apis.request_tracer import RequestTracer
    from kbroker.config.tls_settings import TlsSettings
    from kbroker.console.web.views import BrokerFigures
    from kbroker.http.users import Verdict
    from kbroker.tracing.open_connection import OpenConnection


class KafkaServer:
    """One broker: `await startup()`, serve, `await shutdown()`."""

    def __init__(
        self,
        config: KafkaConfig,
        *,
        cluster_id: str | None = None,
        file_system: FileSystem | None = None,
        adopt: Callable[[str], None] | None = None,
        tree: ClusterTree | None = None,
        around: Surroundings | None = None,
    ) -> None:
        """`cluster_id` is the id of a new cluster; None draws one. Files and surroundings are the
        system's own by default. Without `tree`, the settings say where it is.

        With `adopt`, directories that Apache Kafka wrote are taken over; it is called with the
        sentence that says so.
        """
        self._requested = RequestedStart(config=config, cluster_id=cluster_id, adopt=adopt)
        self._file_system = file_system or RealFileSystem()
        self._around = around or Surroundings()
        self._tree = tree or tree_of(config, self._around.clock, self._file_system)
        self._undo = AsyncExitStack()
        self._running: RunningBroker | None = None
        self._http: HttpServer | None = None
        self.lifecycle = self._around.lifecycle

    @property
    def parts(self) -> BrokerParts:
        """The parts of this broker, once it has started."""
        assert self._running is not None, "the broker was not started"
        return self._running.parts

    @property
    def end_points(self) -> tuple[EndPoint, ...]:
        """The end points listened on, with their real ports; none before the start."""
        return () if self._running is None else self._running.end_points

    def read_certificates_again(self) -> bool:
        """Read the files of certificates again; False if there are none."""
        tls = None if self._running is None else self._running.parts.tls
        if tls is not None:
            tls.read_again()
        return tls is not None

    @property
    def http_end_points(self) -> tuple[EndPoint, ...]:
        """The end points of HTTP, with their real ports; none if it was not asked for."""
        return () if self._http is None else self._http.end_points

    @property
    def broker_id(self) -> int:
        """The id in force; before the start, the one that was set, -1 if none was."""
        config = self._requested.config if self._running is None else self.parts.storage.config
        return config.server.broker_id

    @property
    def broker_epoch(self) -> int:
        """The epoch of the present registration, unknown (-1) before the start."""
        if self._running is None:
            return UNKNOWN_BROKER_EPOCH
        return self.parts.cluster.healthcheck.broker_epoch

    @property
    def is_controller(self) -> bool:
        """True while this broker is the cluster's controller."""
        return self.lifecycle.is_running and self.parts.cluster.controller.is_active

    @property
    def failed(self) -> asyncio.Event:
        """Set when the broker cannot go on; `failure` says why."""
        return self._around.failure.event

    @property
    def failure(self) -> StartError | LogDirectoryError | None:
        """Why the broker cannot go on, None while it can."""
        return self._around.failure.error

    async def startup(self) -> None:
        """Return once produce, consume and groups work.

        Raises ConfigError, LogDirectoryError, StartError, CorruptTreeError or AdoptionNeededError,
        each with one sentence for the operator.
        """
        self.lifecycle.transition_to(BrokerState.STARTING)
        try:
            await self._start()
        except TreeError as error:
            await self.shutdown()
            raise self._tree.refusal(error) from error
        except BaseException:
            await self.shutdown()
            raise

    async def shutdown(self, *, is_with_all: bool = False) -> None:
        """Stop cleanly; `is_with_all`: all other brokers of the cluster stop too."""
        if self.lifecycle.state in (BrokerState.NOT_RUNNING, BrokerState.BROKER_SHUTTING_DOWN):
            return
        if self.lifecycle.is_running:
            self.lifecycle.transition_to(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            if not isinstance(self.failure, StartError):  # then it is registered, and leads
                await self._hand_over(is_with_all=is_with_all)
        self.lifecycle.transition_to(BrokerState.BROKER_SHUTTING_DOWN)
        await self._undo.aclose()
        self.lifecycle.transition_to(BrokerState.NOT_RUNNING)

    async def kill(self) -> None:
        """End like a killed process: no broker hears of it, and no file is finished."""
        self.lifecycle.is_killed = True
        self.lifecycle.transition_to(BrokerState.BROKER_SHUTTING_DOWN)
        await self._tree.close()
        await self._undo.aclose()
        self.lifecycle.transition_to(BrokerState.NOT_RUNNING)

    async def _start(self) -> None:
        limit = raise_file_limit()
        if limit is not None:
            open_files_of(self._file_system).limit = limit // 2  # the rest is for connections
        around, undo = self._around, self._undo
        self._start_http()
        storage = await open_storage(
            self._requested, self._tree, self._file_system, around.clock, undo, present_boot_id()
        )
        self.lifecycle.name = f"broker {storage.identity.broker_id}"
        parts = make_parts(storage, around)
        self._running = await run_parts(parts, around, undo)
        parts.socket_server.enable_request_processing()
        self.lifecycle.transition_to(BrokerState.RUNNING_AS_BROKER)
        self.lifecycle.on_controller_activity(parts.cluster.controller.is_active)

    def _start_http(self) -> None:
        """Listen for HTTP first, and stop last, so that somebody can ask how far both are."""
        looks = Looks(
            checks=self._checks,
            events=self._events,
            tracer=self._tracer,
            samples=self._samples,
            before_samples=self._before_samples,
            end_points=lambda: self.end_points,
            connections=self._connections,
            figures=self._figures,
            check_login=self._check_login,
            look_refusal=self._look_refusal,
            settings=self._settings,
            tls=self._tls_in_force,
            login_changes=self._login_changes,
        )
        self._http = http_server_of(self._requested.config, looks)
        if self._http is not None:
            self._http.start()
            self._undo.push_async_callback(self._http.stop)
            config = self._requested.config.with_http_at(self._http.end_points)
            self._requested = replace(self._requested, config=config)

    async def _check_login(
        self, listener: str, host: str | None, name: str, password: str
    ) -> Verdict:
        if self._running is None:
            raise TimeoutError("the broker is starting")
        from kbroker.server.broker.http_users import check_login  # few brokers have users

        return await check_login(self._running.parts, listener, host, name, password)

    def _look_refusal(self, listener: str, principal: str, host: str) -> str | None:
        if self._running is None:
            return "the broker is starting, or stopping"
        from kbroker.server.broker.http_users import look_refusal  # few brokers have users

        return look_refusal(self._running.parts, listener, principal, host)

    def _settings(self) -> KafkaConfig:
        if self._running is None:
            return self._requested.config
        return self._running.parts.data.config()

    def _login_changes(self) -> int:
        logins = None if self._running is None else self._running.parts.logins
        return 0 if logins is None else logins.changes

    def _tls_in_force(self, listener: str) -> TlsSettings | None:
        tls = None if self._running is None else self._running.parts.tls
        return None if tls is None else tls.settings_at(listener)

    def _checks(self) -> Iterator[Check | None]:
        return checks_of(
            self.lifecycle, lambda: None if self._running is None else self._running.parts
        )

    def _events(self, subject: str | TopicPartition | None) -> Iterator[Noted]:
        if self._running is None:
            return iter(())
        return iter(self._running.parts.data.events.of(subject))

    def _tracer(self) -> RequestTracer | None:
        return None if self._running is None else self._running.parts.followed.tracer()

    async def _before_samples(self) -> None:
        if self._running is not None:
            await self._running.parts.counters.prepare()

    def _samples(self) -> Iterator[Sample | None]:
        if self._running is not None:
            return self._running.parts.counters.samples()
        counters = CounterRegistry()
        self.lifecycle.register(counters)  # all that there is while logs are recovered
        return counters.samples()

    def _connections(self) -> Iterator[OpenConnection]:
        if self._running is None:
            return iter(())
        from kbroker.server.broker.open_connections import open_connections  # which few ask for

        return open_connections(self.parts.socket_server.processor)

    def _figures(self) -> Iterator[BrokerFigures | None]:
        if self._running is None:
            return iter(())
        from kbroker.server.broker.broker_figures import figures_of  # which few ask for

        return figures_of(self.parts)

    async def _hand_over(self, *, is_with_all: bool) -> None:
        cluster, config = self.parts.cluster, self.parts.storage.config
        shutdown = ControlledShutdown(
            config.server, cluster.questions.move_leaderships, self._around.clock
        )
        await shutdown.run(is_with_all=is_with_all)
