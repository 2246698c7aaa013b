"""`kbroker start`: reads settings from file, environment and options, runs a broker or several, and
stops them on a signal.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kbroker.cli.connection import CommandError, ExitCode
from kbroker.cli.output import say

if TYPE_CHECKING:
    from kbroker.server.kafka_server import KafkaServer
    from kbroker.server.local_cluster import LocalCluster
    from kbroker.server.settings import LoadedSettings

_LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.argument("properties", required=False, metavar="[server.properties]")
@click.option(
    "--listen",
    "listen",
    multiple=True,
    metavar="HOST:PORT",
    help="Address to listen on, port 0 picks a free one; may be repeated "
    "(default: 127.0.0.1:9092).",
)
@click.option(
    "--data", metavar="DIR", help="Data directory (default: a temporary one that goes at the end)."
)
@click.option(
    "--profile", type=click.Choice(["dev", "prod"]), help="Set of defaults (default: dev)."
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting by Kafka's name; may be repeated.",
)
@click.option(
    "--brokers",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Run N brokers of one cluster in this process: the others listen on the next free ports, "
    "with their data in DIR/broker-0 and so on (default: 1).",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT/chroot",
    help="Be part of the cluster whose metadata is in this ZooKeeper ensemble; its servers are "
    "separated by commas (default: a cluster of its own, without ZooKeeper).",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Take over data that Apache Kafka wrote; without it, a start only says what it would do.",
)
@click.option("--log-level", type=click.Choice(_LEVELS), default="warning", show_default=True)
def start(
    properties: str | None = None,
    listen: Sequence[str] = (),
    data: str | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    brokers: int = 1,
    zookeeper: str | None = None,
    adopt: bool = False,
    log_level: str = "warning",
) -> None:
    """Start a broker, or several, and run until Ctrl-C or SIGTERM.

    Settings come from, weakest first: the profile, the properties file, the environment
    (KAFKA_...), the options. Prints `listening on HOST:PORT` for each listener once clients can use
    it.
    """
    _set_up_logging(log_level)
    temporary = None
    chosen = _options(listen, data, overrides)
    if zookeeper is not None:
        if not zookeeper.strip():  # as an unset variable in a script gives it
            raise CommandError("--zookeeper is empty: it takes HOST:PORT/chroot", ExitCode.USAGE)
        chosen["zookeeper.connect"] = zookeeper
    settings = _load(properties, profile, chosen)
    if not _names_data_directory(settings):
        if adopt:
            raise CommandError(
                "--adopt needs the directory to take over: --data DIR", ExitCode.USAGE
            )
        temporary = tempfile.mkdtemp(prefix="kbroker-")
        settings = _load(properties, profile, {**chosen, "log.dirs": temporary})
    _check_adoption(settings, brokers, adopt=adopt)
    for warning in settings.warnings:
        say(f"warning: {warning}")
    try:
        sys.exit(_run(Start(settings, temporary, brokers, adopt)))
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


class Start(NamedTuple):
    """What is to be started."""

    settings: LoadedSettings
    temporary: str | None  # the data directory that goes at the end
    brokers: int
    adopt: bool


def _check_adoption(settings: LoadedSettings, brokers: int, *, adopt: bool) -> None:
    if adopt and (brokers > 1 or settings.config.zk.zookeeper_connect):
        raise CommandError(
            "--adopt makes a directory that of a broker of its own: leave out --brokers and "
            "--zookeeper (a broker of an ensemble uses a directory of that cluster as it is)",
            ExitCode.USAGE,
        )


def _run(start: Start) -> int:
    from kbroker.errors import ConfigError
    from kbroker.log.directories.log_directory import LogDirectoryError
    from kbroker.server.adoption.wish import AdoptionNeededError
    from kbroker.server.event_loop import EventLoopKind, run
    from kbroker.server.start_error import StartError
    from kbroker.zk.embedded.tree_journal import CorruptTreeError
    from kbroker.zk.tree import TreeUnavailableError

    kind = EventLoopKind(start.settings.config.kbroker.kbroker_loop)
    try:
        run(_serve(start), kind)
    except AdoptionNeededError as error:
        say(str(error))
        return ExitCode.USAGE
    except (
        ConfigError, LogDirectoryError, StartError, TreeUnavailableError, CorruptTreeError,
    ) as error:  # fmt: skip
        say(f"Error: {error}")
        return ExitCode.ITEM_FAILED
    return 0


async def _serve(start: Start) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = _server(start)
    starting = asyncio.create_task(server.startup(), name="startup")
    stopping = asyncio.create_task(stop.wait(), name="stop signal")
    failing = asyncio.create_task(server.failed.wait(), name="failure")
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if starting.done():
            starting.result()
            # What a start leaves behind stays: a full collection need not look at it, which would
            # hold the loop for 25 ms without a topic, and 130 ms with 5,000 partitions.
            gc.freeze()
            tell(start, server.end_points)
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


def _server(start: Start) -> KafkaServer | LocalCluster:
    from kbroker.log.file_system import RealFileSystem
    from kbroker.log.temporary_file_system import TemporaryFileSystem

    settings = start.settings
    files = RealFileSystem() if start.temporary is None else TemporaryFileSystem()
    if start.brokers == 1:
        from kbroker.server.kafka_server import KafkaServer

        return KafkaServer(
            settings.config,
            cluster_id=settings.cluster_id,
            file_system=files,
            adopt=say if start.adopt else None,
        )
    from kbroker.server.local_cluster import LocalCluster
    from kbroker.server.local_configs import configs_of_brokers

    return LocalCluster(
        configs_of_brokers(settings.config, start.brokers),
        settings.config.log.data_directories()[0],
        cluster_id=settings.cluster_id,
        file_system=files,
    )


def tell(start: Start, end_points: Sequence[object]) -> None:
    """Print one line per listener on standard output, the rest on standard error."""
    for end_point in end_points:
        click.echo(f"listening on {str(end_point).partition('://')[2]}")
    sys.stdout.flush()
    if start.temporary is not None:
        left = (
            ", but ZooKeeper keeps its topics" if start.settings.config.zk.zookeeper_connect else ""
        )
        say(f"data in {start.temporary}, removed at the end{left} (keep it with --data DIR)")


def _options(listen: Sequence[str], data: str | None, overrides: Sequence[str]) -> dict[str, str]:
    from kbroker.errors import ConfigError
    from kbroker.server.settings import parse_overrides

    chosen = {}
    for address in listen:
        if not address.rpartition(":")[2].isdecimal() or ":" not in address:
            raise CommandError(f"--listen '{address}' is no HOST:PORT", ExitCode.USAGE)
    if listen:
        names = ["PLAINTEXT", *[f"PLAINTEXT{number}" for number in range(2, len(listen) + 1)]]
        chosen["listeners"] = ",".join(
            f"{name}://{address}" for name, address in zip(names, listen, strict=True)
        )
        if len(listen) > 1:
            chosen["listener.security.protocol.map"] = ",".join(
                f"{name}:PLAINTEXT" for name in names
            )
    if data is not None:
        chosen["log.dirs"] = str(Path(data).expanduser().absolute())
    try:
        return chosen | parse_overrides(overrides)
    except ConfigError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error


def _load(properties: str | None, profile: str | None, chosen: dict[str, str]) -> LoadedSettings:
    from kbroker.errors import ConfigError
    from kbroker.server.settings import SettingSources, load_settings, parse_properties

    try:
        from_file = (
            {}
            if properties is None
            else parse_properties(Path(properties).read_text(encoding="utf-8"))
        )
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandError(f"cannot read {properties}: {reason}", ExitCode.USAGE) from error
    try:
        return load_settings(
            SettingSources(
                profile=profile,
                properties=from_file,
                environment=dict(os.environ),
                overrides=chosen,
            )
        )
    except ConfigError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error


def _names_data_directory(settings: LoadedSettings) -> bool:
    """Whether any source says where the data lives; the default of Kafka is nobody's wish."""
    return bool({"log.dirs", "log.dir"} & set(settings.config.texts))


def _set_up_logging(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
