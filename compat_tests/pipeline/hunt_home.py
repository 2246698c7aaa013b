"""The directory that a hunt works in."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def hunt_home(name: str) -> Iterator[Path]:
    """A new directory; it stays, and is named on standard error, where a fault was found."""
    home = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    try:
        yield home
    except BaseException:
        print(f"all files are in {home}", file=sys.stderr)
        raise
    shutil.rmtree(home)
