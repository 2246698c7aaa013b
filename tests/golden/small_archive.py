"""Makes, for the sessions, a small archive of a topic `t`:

.venv/bin/python -m tests.golden.small_archive DIRECTORY
"""

from __future__ import annotations

import os
import sys

from tests.fakes.archives.arrow_records import record
from tests.fakes.archives.parquet_archive import archive_rows

if __name__ == "__main__":
    archive_rows(os.path.abspath(sys.argv[1]), [record(offset) for offset in range(3)])
