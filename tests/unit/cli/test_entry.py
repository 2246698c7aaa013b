"""The command as Python begins it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# Interrupts itself at the import that is named.
INTERRUPTED_AT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the test was started by
sys.meta_path.insert(0, Interrupt())
from kbroker.cli.__main__ import main
main(["start", "--help"])
"""


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("click", -signal.SIGINT),
        ("kbroker.cli.lazy_commands", -signal.SIGINT),
        ("kbroker.cli.broker.start", 130),
    ],
)
def test_an_interrupt_at_any_import_ends_the_command_without_a_word(module: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, module], check=False, capture_output=True, text=True
    )

    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
