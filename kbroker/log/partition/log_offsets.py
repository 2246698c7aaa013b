"""The offsets of one log: where it starts and ends, how far it is committed, on the disk, cleaned,
copied.

Law: all of them lie within the log. The high watermark moves back only when the log is cut below
it, and a cut moves back all that lay beyond. A cut counts from the moment it is begun, for replicas
compare where their logs end.

Owned by its log; numbers only.
"""

from __future__ import annotations


class LogOffsets:
    """`log_start_offset` is inclusive, all other bounds are exclusive."""

    __slots__ = (
        "_flush_messages",
        "cleaned_end_offset",
        "copied_up_to",
        "cuts",
        "flush_due_offset",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "recovery_point",
        "unfinished_cut",
    )

    def __init__(self, log_start_offset: int, log_end_offset: int, recovery_point: int) -> None:
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        self.flush_due_offset = 0  # an end offset from which on appends wait for a flush
        self.cleaned_end_offset: int | None = None  # how far the cleaner came; None: not at all
        # Up to where a copy on another disk has these records, while it is being made.
        self.copied_up_to: int | None = None
        self.unfinished_cut: int | None = None  # where a truncation came to no end
        self.cuts = 0  # how often the end was cut off: offsets got other records then
        self._flush_messages = 0

    def last_stable_offset(self, first_unstable_offset: int | None) -> int:
        """Where committed data ends: no transaction that is open or unreplicated is below it."""
        if first_unstable_offset is None or first_unstable_offset >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable_offset, self.log_start_offset)

    def appended_to(self, end_offset: int) -> None:
        """Records have come, and end there."""
        self.log_end_offset = end_offset

    def raise_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to `offset`, within the log, never down; True if it moved."""
        end_offset = self.log_end_offset
        bounded = end_offset if offset >= end_offset else max(offset, self.log_start_offset)
        if bounded <= self.high_watermark:
            return False
        self.high_watermark = bounded
        return True

    def raise_log_start(self, offset: int) -> None:
        """Hide what is below `offset`, which is committed."""
        assert self.log_start_offset <= offset <= self.high_watermark, (offset, self.high_watermark)
        self.log_start_offset = offset

    def begin_cut(self, offset: int) -> None:
        """Let the log end at `offset`, or earlier if it does, before its files do: nobody may hear
        of records that go, elect this log for them, or copy them.
        """
        self.unfinished_cut = offset
        self.end_at(min(offset, self.log_end_offset))

    def end_at(self, end_offset: int) -> None:
        """The log was cut to end there."""
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self._cut_to(end_offset)

    def begin_anew_at(self, offset: int) -> None:
        """Begin to make the log an empty one that starts and ends at `offset`."""
        self.unfinished_cut = offset
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self._cut_to(offset)

    def cut_is_done(self) -> None:
        """The files end where the log does."""
        self.unfinished_cut = None

    def flush_every(self, flush_messages: int) -> None:
        """Use this `flush.messages` from now on."""
        self._flush_messages = flush_messages
        self._recover_from(self.recovery_point)

    def flushed_to(self, end_offset: int) -> None:
        self._recover_from(max(self.recovery_point, end_offset))

    def cleaned_to(self, end_offset: int | None) -> None:
        """The cleaner came as far as that."""
        self.cleaned_end_offset = end_offset

    def copied_to(self, end_offset: int | None) -> None:
        """A copy on another disk ends there; None: there is none."""
        self.copied_up_to = end_offset

    def _cut_to(self, end_offset: int) -> None:
        self.cuts += 1
        if self.copied_up_to is not None:
            self.copied_up_to = min(self.copied_up_to, end_offset)
        if self.cleaned_end_offset is not None:
            self.cleaned_end_offset = min(self.cleaned_end_offset, end_offset)
        self._recover_from(min(self.recovery_point, end_offset))

    def _recover_from(self, offset: int) -> None:
        self.recovery_point = offset
        self.flush_due_offset = offset + self._flush_messages
