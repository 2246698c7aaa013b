"""Which segments are cleaned into one: neighbours that fit into one segment together.

Law: no group is larger than a segment or an index may be, and none of its offsets is further from
the first than an index entry can say, whatever the cleaning removes: otherwise the merged segment
could not be indexed.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.log.cleaner.cleaning_job import CleaningJob, SourceSegment
from kbroker.log.format import MAX_RELATIVE_OFFSET


def group_segments(job: CleaningJob, end_offset: int) -> list[list[SourceSegment]]:
    """The segments that start below `end_offset`, in groups."""
    segments = [segment for segment in job.segments if segment.base_offset < end_offset]
    groups: list[list[SourceSegment]] = []
    for index, segment in enumerate(segments):
        following = segments[index + 1 : index + 2]
        next_offset = following[0].base_offset if following else job.first_uncleanable_offset
        if groups and _fits(job, groups[-1], segment, next_offset - 1):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    job: CleaningJob, group: Sequence[SourceSegment], segment: SourceSegment, last_offset: int
) -> bool:
    together = [*group, segment]
    return (
        sum(s.size_bytes for s in together) <= job.segment_bytes
        and sum(s.offset_index_bytes for s in together) <= job.segment_index_bytes
        and sum(s.time_index_bytes for s in together) <= job.segment_index_bytes
        and (not segment.size_bytes or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )
