"""Has kbroker's modules, and forks a process for each command that it is told: see forked_kbroker.

Law: it starts no thread and no loop, so that a fork of it is a process like any other; what Arrow
starts with its import, it starts anew in a fork. Between the server and each command stands one
process more, which waits for the command and says how it ended: the command's exit is heard where
it was asked for, and whoever kills it kills nothing else.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

from compat_tests.running.forked_kbroker import STATUS

_MAX_BYTES = 1024 * 1024
# What commands import when they are called.
_MODULES = (
    "cramjam",
    "encodings.idna",
    "kafka",
    "uvloop",
    "kbroker.cli.__main__",
    "kbroker.cli.arguments.bootstrap_reading",
    "kbroker.cli.command_line",
    "kbroker.cli.cluster.commands",
    "kbroker.cli.config.commands",
    "kbroker.cli.doctor.command",
    "kbroker.cli.records.consume",
    "kbroker.cli.group.commands",
    "kbroker.cli.kafka_tools.configs",
    "kbroker.cli.kafka_tools.console_consumer",
    "kbroker.cli.kafka_tools.consumer_groups",
    "kbroker.cli.log.commands",
    "kbroker.cli.records.group_records",
    "kbroker.cli.records.produce",
    "kbroker.cli.shown.fitted_table",
    "kbroker.cli.shown.recovery_display",
    "kbroker.cli.broker.start",
    "kbroker.cli.broker.status",
    "kbroker.cli.topic.commands",
    "kbroker.cli.txn.commands",
    "kbroker.client.cluster_links",
    "kbroker.log.append.message_set_append",
    "kbroker.apis.produce_work",
    "kbroker.server.broker.kafka_server",
    "kbroker.server.start.launch",
    "kbroker.server.start.start_refusals",
    "kbroker.zk.ensemble.kazoo_tree",
)
# Beside these, what those of the pipeline import: a second of processor time.
PIPELINE = (
    "kbroker.cli.pipeline.rules_plan",
    "kbroker.pipeline.jobs.archive",
    "kbroker.pipeline.jobs.audit",
    "kbroker.pipeline.jobs.lag",
    "kbroker.pipeline.jobs.mirror",
    "kbroker.pipeline.jobs.restore",
    "kbroker.pipeline.jobs.rules",
)
_PACKAGES = ("kbroker.apis", "kbroker.protocol.messages")  # all modules of these
_codes: list[int] = []  # with which this process ends


def main() -> None:
    """Serve until the other end is closed: `forking_server DESCRIPTOR [pipeline]`."""
    atexit.register(_end_quickly)  # is called last, as nothing else is registered yet
    line = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system takes those that have ended away
    import_commands(*(PIPELINE if sys.argv[2:] else ()))
    while True:
        told, descriptors, _, _ = socket.recv_fds(line, _MAX_BYTES, 4)
        if not told:
            return
        if os.fork() == 0:
            _look_after(line, json.loads(told), descriptors)
            return  # the command's own process: this is its end
        for number in descriptors:
            os.close(number)


def import_commands(*others: str) -> None:
    """Import what commands import as they run, and `others`, for the forks to come: none of these
    looks for garbage in it, which would copy it.
    """
    for module in (*_MODULES, *_modules_of_packages(), *others):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def _modules_of_packages() -> Iterator[str]:
    for name in _PACKAGES:
        package = importlib.import_module(name)
        yield from (f"{name}.{found.name}" for found in pkgutil.iter_modules(package.__path__))


def _look_after(line: socket.socket, command: dict[str, Any], descriptors: list[int]) -> None:
    """Fork the command, which alone returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, status = descriptors
    pid = os.fork()
    if pid == 0:
        line.close()
        os.close(status)
        _run(command, standard)
        return
    line.send(b"%d" % pid)
    for number in (line.fileno(), *standard):
        os.close(number)  # who reads what the command prints waits for the last one that could
    os.write(status, STATUS.pack(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _run(command: dict[str, Any], standard: list[int]) -> None:
    """Run the command as `python -m kbroker.cli` would."""
    import kbroker.cli.__main__ as entry

    signal.signal(signal.SIGINT, signal.default_int_handler)
    if command["has_session"]:
        os.setsid()
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["directory"])
    sys.argv = [entry.__file__, *command["arguments"]]
    sys.stdin = sys.__stdin__ = _stream(0, "r")
    sys.stdout = sys.__stdout__ = _stream(1, "w")
    sys.stderr = sys.__stderr__ = _stream(2, "w", buffering=1, errors="backslashreplace")
    try:
        entry.main()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            _codes.append(ended.code)
        raise


def _end_quickly() -> None:
    """End a command's process as the interpreter would, without taking all modules apart: as they are
    shared, that copies them, which takes four times as much as a short command. What is left behind
    in cycles is still heard of.
    """
    if not _codes:  # the server itself, or a command that ends with a traceback
        return
    gc.collect()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # which the interpreter has words for
    os._exit(_codes[0])


def _stream(number: int, mode: str, **options: Any) -> Any:
    return open(number, mode, closefd=False, **options)


if __name__ == "__main__":
    main()
