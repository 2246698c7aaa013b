from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from kbroker.cli.__main__ import main
try:
    main(sys.argv[1:])
finally:
    print("loaded:", *sys.modules)
"""
COMMAND = [sys.executable, "-S", "-c", PROGRAM]  # -S: what a site's own files import is not ours
ENVIRONMENT = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
# Together they cost two megabytes and ten milliseconds; each came for a function that a start of a
# named directory does not call.
UNUSED = {
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
# What clusters over a ZooKeeper and clients import.
OF_OTHERS = ("kafka", "kazoo", "msgspec", "kbroker.inspection", "kbroker.zk.ensemble")

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
    assert rooms <= {"cli", "client", "errors", "near_names"}


def test_a_broker_imports_nothing_large_that_it_does_not_use(tmp_path: Path) -> None:
    start = ["start", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    with subprocess.Popen(
        [*COMMAND, *start],
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

    loaded = set(said[-1].split())
    assert "kbroker.server.kafka_server" in loaded, said
    assert not loaded & UNUSED
    assert [name for name in loaded if name.startswith(OF_OTHERS)] == []
