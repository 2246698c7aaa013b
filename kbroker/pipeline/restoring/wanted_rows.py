"""The rows of one partition of an archive that a restore wants, by rising offset."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from kbroker.pipeline.archiving.ordered.ordered_reading import ordered_rows
from kbroker.pipeline.archiving.reader import ArchiveSelection
from kbroker.pipeline.restoring.restore_plan import PartitionPlan


def wanted_rows(
    archive: str,
    plan: PartitionPlan,
    wanted: ArchiveSelection,
    keys: Collection[bytes],
    start_offset: int,
) -> Iterator[pa.RecordBatch]:
    """Yield rows from an offset on, with one of the keys if any; no batch is empty."""
    wanted = replace(wanted, start_offset=max(start_offset, wanted.start_offset or 0))
    batches = ordered_rows(archive, plan.files, wanted)
    if not keys:
        yield from batches
        return
    values = pa.array(sorted(keys), pa.binary())
    for rows in batches:
        chosen = rows.filter(pc.is_in(rows.column("key"), value_set=values))
        if chosen.num_rows:
            yield chosen
