"""Asks which partitions a source has, and which of them have records that were not read yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kbroker.pipeline.cluster_errors import while_reachable
from kbroker.pipeline.spark_job.offsets import Offsets
from kbroker.pipeline.spark_job.source import Source


class PartitionsLook(NamedTuple):
    """Partitions of a source by name."""

    partitions: Collection[str] = ()  # all of them
    behind: Collection[str] = ()  # those with records still to be read


def look_at(source: Source, ends: Mapping[str, int]) -> PartitionsLook | None:
    """Ask the source, with the offsets up to which partitions were read in `ends`; None if no
    broker can be asked, which proves nothing about any partition.
    """
    nothing: Offsets = {}
    told = while_reachable(source.latest, nothing)
    if not told:
        return None
    latest = {str(each): end for each, end in told.items()}
    unread = {name: end for name, end in latest.items() if end > ends.get(name, 0)}
    if not unread.keys() <= ends.keys():
        earliest = while_reachable(source.earliest, nothing)
        if not earliest:
            return None
        starts = {str(each): start for each, start in earliest.items()}
        unread = {
            name: end for name, end in unread.items() if end > ends.get(name, starts.get(name, end))
        }
    return PartitionsLook(latest.keys(), unread.keys())
