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
# Together they cost two megabytes and ten milliseconds; each came for a function that a start of a
# named directory does not call.
UNUSED = {"bz2", "csv", "encodings.idna", "lzma", "pathlib", "shutil", "tempfile", "urllib.parse"}


def test_a_broker_imports_nothing_large_that_it_does_not_use(tmp_path: Path) -> None:
    start = ["start", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    command = [sys.executable, "-S", "-c", PROGRAM, *start]
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
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
