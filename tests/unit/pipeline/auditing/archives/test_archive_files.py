"""Files of an archive that an audit looks into: what no archive wrote is a finding, too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kbroker.pipeline.auditing.archives.archive_files import FileTask, check_parquet
from kbroker.pipeline.finding_codes import AuditCode
from tests.fakes.archives.arrow_records import BASE_MS, HOUR_MS, record
from tests.fakes.archives.parquet_archive import archive_rows, as_it_is_now


def test_offsets_that_are_no_numbers_are_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    (entry,) = archive_rows(str(path), [record(at, timestamp=BASE_MS) for at in range(4)])
    rows = pq.read_table(path / entry.path)
    texts = rows.column("offset").cast(pa.string())
    changed = rows.set_column(rows.column_names.index("offset"), "offset", texts)
    pq.write_table(changed, path / entry.path)
    entry = as_it_is_now(str(path), entry)

    result = check_parquet(FileTask(archive=str(path), entry=entry, window_ms=HOUR_MS))

    assert AuditCode.ARCHIVE_FILE_UNREADABLE in [each.code for each in result.findings]
