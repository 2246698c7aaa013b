from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from kbroker.apis.registry import registered
from kbroker.server.broker.running_broker import LATE_ROOMS

PROGRAM = """
import gc
import sys
from kbroker.cli.__main__ import main

collections = []  # before what is alive is excluded from them
gc.callbacks.append(lambda phase, _: gc.get_freeze_count() or collections.append(phase))
try:
    main(sys.argv[1:])
finally:
    print("collections:", collections.count("start"))
    print("loaded:", *sys.modules)
"""
COMMAND = [sys.executable, "-S", "-c", PROGRAM]  # -S: what a site's own files import is not ours
ENVIRONMENT = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
# Together they cost three megabytes and ten milliseconds; each came for a function that a start of a
# named directory does not call.
UNUSED = {
    "_hashlib",  # with it comes OpenSSL
    "bz2",
    "click.shell_completion",
    "csv",
    "encodings.idna",
    "lzma",
    "pathlib",
    "shutil",
    "tempfile",
    "urllib.parse",
}
# What clusters over a ZooKeeper, clients, and requests import.
OF_OTHERS = (
    "kafka",
    "kazoo",
    "msgspec",
    "kbroker.admin.followed_quotas",
    "kbroker.apis.produce",
    "kbroker.coordinator.consumer_group",
    "kbroker.coordinator.group.consumer_group_requests",
    "kbroker.coordinator.group.consumer_groups",
    "kbroker.coordinator.transaction.decisions",
    "kbroker.coordinator.transaction.transaction",
    "kbroker.coordinator.transaction_coordinator",
    "kbroker.delegation_tokens",
    "kbroker.events.partition_events",
    "kbroker.events.producer_events",
    "kbroker.inspection",
    "kbroker.protocol.messages.describe_transactions",
    "kbroker.quotas.client_quota_manager",
    "kbroker.quotas.quota_entity",
    "kbroker.quotas.rate",
    "kbroker.zk.ensemble",
    "re2",
    "xxhash",
)

# What Produce and Fetch of old clients need comes with their handlers.
OF_OLD_CLIENTS = {"kbroker.log.append.message_set_append", "kbroker.record.conversion"}
# ... and with the heartbeat of their members the machine of consumer groups.
WITH_HANDLERS = OF_OLD_CLIENTS | {
    "kbroker.coordinator.consumer_group.heartbeat",
    "kbroker.coordinator.consumer_group.replay",
    "kbroker.coordinator.group.consumer_groups",
}

# Of the 65 ms that help takes, 20 are Python's own.
NOT_FOR_HELP = {
    "asyncio",
    "click.shell_completion",
    "difflib",
    "importlib.metadata",
    "json",
    "kafka",
    "logging",
    "msgspec",
    "uvloop",
}


def test_help_imports_no_more_than_it_prints() -> None:
    done = subprocess.run(
        [*COMMAND, "--help"], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )

    loaded = set(done.stdout.splitlines()[-1].split())
    assert "kbroker.cli.lazy_commands" in loaded
    assert not loaded & NOT_FOR_HELP
    rooms = {name.split(".")[1] for name in loaded if name.startswith("kbroker.")}
    assert rooms <= {"cli", "client", "errors", "near_names", "start_collections", "wording"}
    assert "collections: 1\n" in done.stdout  # the one as it ends


def test_a_broker_imports_nothing_large_that_it_does_not_use(tmp_path: Path) -> None:
    said = said_by("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))

    assert said[-2] == "collections: 1\n"
    loaded = modules_in(said)
    assert "kbroker.server.broker.kafka_server" in loaded
    assert not loaded & (UNUSED | OF_OLD_CLIENTS)
    assert [name for name in loaded if name.startswith(OF_OTHERS)] == []


def test_a_broker_that_may_outlive_its_release_has_all_it_needs(tmp_path: Path) -> None:
    said = said_by("--profile", "prod", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))

    loaded = modules_in(said)
    handlers = {api.handler.__module__ for api in registered().values()}
    needed = handlers | WITH_HANDLERS | set(LATE_ROOMS)
    assert needed <= loaded, needed - loaded


def said_by(*options: str) -> list[str]:
    """The lines of a broker that stops as soon as it listens."""
    with subprocess.Popen(
        [*COMMAND, "start", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRONMENT,
    ) as broker:
        assert broker.stdout is not None
        said = []
        for line in broker.stdout:
            said.append(line)
            if "listening on" in line:
                broker.send_signal(signal.SIGTERM)
    return said


def modules_in(said: list[str]) -> set[str]:
    """The modules that were imported by then."""
    assert said[-1].startswith("loaded:"), said
    return set(said[-1].split())
