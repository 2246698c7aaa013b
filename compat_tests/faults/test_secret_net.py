"""The net for secrets finds those that are shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from compat_tests.faults.secret_net import given_secrets, noting, search

SHOWS = """
import logging, subprocess, sys
print("printed of-the-file")
logging.getLogger("kbroker.any").debug("logged %s", "of-the-file")
subprocess.run([sys.executable, "-c", "", "of-the-file"])
"""


def test_a_secret_is_found_wherever_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text('sasl.jaas.config=X password="of-the-file";\n')
    (tmp_path / "journal").write_bytes(b"kept \0" + b"of-the-file".hex().encode())
    environment = noting(tmp_path, dict(os.environ))

    shown = subprocess.run(
        [sys.executable, "-c", SHOWS], env=environment, check=True, capture_output=True, text=True
    )

    assert (shown.stdout, shown.stderr) == ("printed of-the-file\n", "")
    secrets = given_secrets(tmp_path)
    assert secrets["of-the-file"] == "server.properties"
    found = [line.partition(" in ")[2] for line in search(tmp_path, secrets)]
    assert [line.partition("-")[0] for line in found if line.startswith("heard")] == [
        "heard/arguments",
        "heard/log",
        "heard/output",
    ]
    assert [line.partition(":")[0] for line in found if not line.startswith("heard")] == ["journal"]
