"""The rows of one partition of an archive that a restore wants, by rising offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from kbroker.pipeline.archiving.ordered.ordered_reading import ordered_rows
from kbroker.pipeline.archiving.reader import ArchiveSelection
from kbroker.pipeline.restoring.restore_plan import PartitionPlan


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The rows in the files of `plan` that are `wanted`, with one of the `keys` if any."""

    archive: str
    plan: PartitionPlan
    wanted: ArchiveSelection
    keys: frozenset[bytes]

    def since(self, start_offset: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from an offset on; no batch is empty. Raises PipelineError."""
        start_offset = max(start_offset, self.wanted.start_offset or 0)
        wanted = replace(self.wanted, start_offset=start_offset)
        batches = ordered_rows(self.archive, self.plan.files, wanted)
        if not self.keys:
            yield from batches
            return
        values = pa.array(sorted(self.keys), pa.binary())
        for rows in batches:
            chosen = rows.filter(pc.is_in(rows.column("key"), value_set=values))
            if chosen.num_rows:
                yield chosen
