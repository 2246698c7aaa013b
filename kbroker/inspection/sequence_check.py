"""Follows the idempotent producers of a log: sequences without jump or repetition, epochs that rise
(KIP-98, KIP-360). Headers in, problems out.

Law: a producer may begin anywhere. Retention or DeleteRecords removed what it wrote before,
compaction removes whole batches, and a broker forgets a producer that was silent for a day. So a
batch is compared only with one of the same producer that the log shows right before it, with
nothing missing or broken in between. A new epoch begins with sequence 0, 2^31 - 1 is followed by 0,
and a batch without sequence proves nothing. A group coordinator writes the committed offsets of
transactions, each batch with sequence 0: of its log only the epochs are looked at.
"""

from __future__ import annotations

from collections.abc import Collection

from kbroker.inspection.batch_check import Problem
from kbroker.inspection.finding_codes import FindingCode
from kbroker.model import NO_SEQUENCE
from kbroker.record.record_batch import BatchHeader

EXPIRATION_MS = 86_400_000  # the default of producer.id.expiration.ms
MAX_PRODUCERS = 200_000  # of those seen longest ago the check knows nothing any more
_UNKNOWN = -1
_MAX_SEQUENCE = 0x7FFF_FFFF
_NOT_NEXT = "of producer {} (epoch {}) follows sequence {}, which offset {} holds"


class _Producer:
    """The last that the log showed of a producer."""

    __slots__ = ("epoch", "last_offset", "next_sequence", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.next_sequence = _UNKNOWN
        self.last_offset = -1
        self.timestamp = -1


class SequenceCheck:
    """Checks one log, whose batches come in order."""

    def __init__(self, *, is_of_coordinator: bool = False) -> None:
        self._is_of_coordinator = is_of_coordinator
        self._producers: dict[int, _Producer] = {}
        self._whole_from = 0  # from this offset on nothing was missing or broken

    def disturbed(self, next_offset: int) -> None:
        """Forget all before `next_offset`: records are missing there, or cannot be trusted."""
        self._whole_from = next_offset

    def knows(self, producer_ids: Collection[int]) -> None:
        """Keep only the producers that the broker knew at this place of the log."""
        for producer_id in self._producers.keys() - producer_ids:
            del self._producers[producer_id]

    @property
    def has_producers(self) -> bool:
        """True if `knows` would make a difference."""
        return bool(self._producers)

    def marker(self, header: BatchHeader) -> Problem | None:
        """Check the end of a transaction: it may bump the epoch, and has no sequence."""
        known = self._producers.get(header.producer_id)
        if known is None:
            return None
        if header.producer_epoch < known.epoch:
            return self._old_epoch(known, header)
        if header.producer_epoch > known.epoch:
            known.epoch = header.producer_epoch
            known.next_sequence = 0
        known.last_offset = header.last_offset
        known.timestamp = max(known.timestamp, header.max_timestamp)
        return None

    def batch(self, header: BatchHeader) -> Problem | None:
        """Check records of a producer with an id."""
        known = self._producers.get(header.producer_id)
        sequence = header.base_sequence
        if (
            known is not None
            and known.epoch == header.producer_epoch
            and known.next_sequence == sequence
        ):
            self._note(known, header)
            return None
        if known is None:
            known = self._begin(header)
        problem = self._problem(known, header)
        if problem is None or problem.code == FindingCode.SEQUENCE_GAP:
            known.epoch = header.producer_epoch
            self._note(known, header)
        return problem

    def _begin(self, header: BatchHeader) -> _Producer:
        if len(self._producers) >= MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]
        known = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        return known

    def _note(self, known: _Producer, header: BatchHeader) -> None:
        sequence = header.base_sequence
        known.last_offset = header.base_offset + header.last_offset_delta
        known.timestamp = max(known.timestamp, header.max_timestamp)
        if sequence == NO_SEQUENCE or self._is_of_coordinator:
            known.next_sequence = _UNKNOWN
        else:
            known.next_sequence = (sequence + header.last_offset_delta + 1) & _MAX_SEQUENCE

    def _problem(self, known: _Producer, header: BatchHeader) -> Problem | None:
        if known.last_offset < self._whole_from or header.base_sequence == NO_SEQUENCE:
            return None
        if header.max_timestamp - known.timestamp >= EXPIRATION_MS:
            return None
        if header.producer_epoch < known.epoch:
            return self._old_epoch(known, header)
        sequence = header.base_sequence
        if header.producer_epoch > known.epoch:
            if sequence == 0 or self._is_of_coordinator:
                return None
            what = (
                f"sequence {sequence} begins epoch {header.producer_epoch} of producer "
                f"{header.producer_id}, which begins with 0: the records before it are missing"
            )
            return Problem(FindingCode.SEQUENCE_GAP, what)
        if known.next_sequence == _UNKNOWN:
            return None
        last_sequence = (known.next_sequence - 1) & _MAX_SEQUENCE
        what = f"sequence {sequence} " + _NOT_NEXT.format(
            header.producer_id, known.epoch, last_sequence, known.last_offset
        )
        missing = (sequence - known.next_sequence) & _MAX_SEQUENCE
        if missing <= _MAX_SEQUENCE // 2:
            return Problem(FindingCode.SEQUENCE_GAP, f"{what}: {missing} records are missing")
        return Problem(FindingCode.SEQUENCE_DUPLICATE, f"{what}: records were written twice")

    def _old_epoch(self, known: _Producer, header: BatchHeader) -> Problem | None:
        if known.last_offset < self._whole_from:
            return None
        what = (
            f"producer {header.producer_id} writes with epoch {header.producer_epoch} after epoch "
            f"{known.epoch}, which offset {known.last_offset} holds"
        )
        return Problem(FindingCode.PRODUCER_EPOCH, what)
