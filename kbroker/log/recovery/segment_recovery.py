"""Reads segments of a log that is being opened from end to end: those that an unclean stop may have
left broken, and those whose indexes must be rebuilt.

Law: what may not have been on the disk is cut at the first broken batch, and all after it goes,
durably; what was there for good is only read around its damage. Epochs and producers follow the
batches that stay. See `log_loader` for what counts as broken.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import MAX_OFFSET
from kbroker.log.producers.producer_replay import replay_batch
from kbroker.log.recovery.epoch_loading import EpochLoading, EpochRun
from kbroker.log.recovery.index_rebuild import index_sound_batches, rebuild_beside
from kbroker.log.recovery.load_checks import first_epoch
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.producer_loading import ProducerLoading
from kbroker.log.segments.log_segment import LogSegment, OnBatch
from kbroker.log.segments.log_segments import LogSegments
from kbroker.record.batch_order import is_older, misses_records_before
from kbroker.record.record_batch import BatchHeader

_NO_EPOCH: Final = -1

_log = logging.getLogger(__name__)


class SegmentRecovery:
    """Recovers segments of one log; used by its loader."""

    def __init__(
        self,
        request: LoadRequest,
        file_system: FileSystem,
        segments: LogSegments,
        producers: ProducerLoading,
        epochs: EpochLoading,
    ) -> None:
        self.recovered: set[int] = set()  # base offsets of segments that were checked and cut
        self.rebuilt: set[int] = set()  # of those of which only the indexes were rebuilt
        self._request = request
        self._was_clean = request.was_clean
        self._gapless_from = MAX_OFFSET if request.gapless_from is None else request.gapless_from
        self._file_system = file_system
        self._segments = segments
        self._producers = producers
        self._epochs = epochs
        self._latest_epoch = _NO_EPOCH  # of the last batch that was recovered

    def recover_from(self, offset: int) -> None:
        """Check all from the segment that holds `offset` on; cut at the first broken batch."""
        self._latest_epoch = _NO_EPOCH
        unflushed = self._segments.from_offset(offset)
        for index, segment in enumerate(unflushed):
            if index and (self.misses_records_before(segment) or self._is_older(segment)):
                self.remove(unflushed[index:])
                return
            cut_bytes = self.recover(segment)
            if cut_bytes:
                _log.warning(
                    "Cut %d bytes off %s.log: not a whole batch", cut_bytes, segment.path_stem
                )
                self._file_system.sync(segment.records.path)
                self.remove(unflushed[index + 1 :])
                return

    def recover(self, segment: LogSegment) -> int:
        """Check a segment and cut it at the first broken batch; rebuild its indexes, epochs and
        producers. The number of bytes cut off.
        """
        runs: list[EpochRun] = []

        def walk(segment: LogSegment) -> int:
            replay = self._replay_of(segment)

            def on_batch(header: BatchHeader, batch: memoryview) -> None:
                epoch = header.partition_leader_epoch
                if runs and runs[-1].epoch == epoch:
                    runs[-1].last_offset = header.base_offset
                else:
                    runs.append(EpochRun(epoch, header.base_offset, header.base_offset))
                replay(header, batch)

            end_offset = self._segments.end_bound(segment)
            return segment.recover(on_batch, gapless_from=self._gapless_from, end_offset=end_offset)

        self.recovered.add(segment.base_offset)
        if segment.base_offset < self._request.recovery_point:
            # The next start trusts its indexes, so they are not made in their places.
            cut_bytes = rebuild_beside(segment, self._file_system, walk)
        else:
            cut_bytes = walk(segment)
        self._epochs.learn(runs)
        if runs:
            self._latest_epoch = runs[-1].epoch
        self._producers.end_segment(was_clean=self._was_clean)
        return cut_bytes

    def rebuild(self, segment: LogSegment) -> None:
        """Rebuild the indexes of a trusted segment, without what is damaged in it."""

        def walk(segment: LogSegment) -> None:
            index_sound_batches(
                segment, self._segments.end_bound(segment), self._replay_of(segment)
            )

        self.rebuilt.add(segment.base_offset)
        rebuild_beside(segment, self._file_system, walk)
        self._producers.end_segment(was_clean=self._was_clean)

    def remove(self, segments: Sequence[LogSegment]) -> None:
        """Take segments out for good, with what is known of their producers."""
        for segment in segments:
            _log.warning("Removing segment %s", segment.path_stem)
            self._segments.remove(segment)
            self._producers.removed(segment.base_offset)
            segment.delete()
        if segments:  # a clean stop does not look into what did not grow since
            self._file_system.sync_directory(self._request.directory)

    def misses_records_before(self, segment: LogSegment) -> bool:
        """True if a power loss took the end of the segment before, which was recovered just now,
        and left this one: see `log_loader`. What is before the log start was being removed.
        """
        end_offset = self._producers.state.map_end_offset
        gaps_up_to = max(self._gapless_from, self._request.log_start_offset)
        if not misses_records_before(segment.base_offset, end_offset, gaps_up_to):
            return False
        _log.warning("%s.log lacks the records from %d on", segment.path_stem, end_offset)
        return True

    def _is_older(self, segment: LogSegment) -> bool:
        """True if it begins with an earlier leader epoch than the segment before ends with: a
        power loss has brought it back, and it had been cut off.
        """
        epoch = first_epoch(segment)
        if not is_older(segment.base_offset, epoch, self._latest_epoch, self._gapless_from):
            return False
        _log.warning("%s.log has epoch %d after %d", segment.path_stem, epoch, self._latest_epoch)
        return True

    def _replay_of(self, segment: LogSegment) -> OnBatch:
        """Return the function that follows the batches of a segment, from its first one on:
        producers, and the transactions they aborted.
        """
        self._producers.begin_segment(segment.base_offset, was_clean=self._was_clean)
        producers = self._producers.state
        transaction_index = segment.transaction_index
        on_recovered = self._request.on_recovered

        def on_batch(header: BatchHeader, batch: memoryview) -> None:
            on_recovered(len(batch))
            replay_batch(producers, header, batch, transaction_index)
            producers.advance_to(header.next_offset)

        return on_batch
