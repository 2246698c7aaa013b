from __future__ import annotations

from typing import Any, cast

import pytest

from kbroker.network.channel import Channel
from kbroker.network.connection_quotas import ConnectionQuotas
from kbroker.network.processor import Processor
from kbroker.network.receive_buffers import ReceiveBuffers
from kbroker.network.request_channel import RequestChannel
from kbroker.network.unserved_clients import UnservedClients
from kbroker.protocol.frame import FrameSizeError
from tests.fakes.requests.scripted_channel import ScriptedChannel
from tests.fakes.running.virtual_time import VirtualTime

MINUTE_MS = 60_000


class Sweeps:
    """A processor with one connection, swept every five seconds of virtual time."""

    def __init__(self, idle_ms: int = 10 * MINUTE_MS) -> None:
        self.time = VirtualTime()
        self.quotas = ConnectionQuotas(10, 10)
        self.processor = Processor(
            RequestChannel(1),
            ReceiveBuffers(1 << 20),
            self.quotas,
            self.time,
            (100, idle_ms),
            UnservedClients(),
        )
        self.channel = ScriptedChannel()
        self.quotas.increment(
            self.channel.connection.peer_host, self.channel.connection.listener_name
        )
        self.processor.channel_opened(cast(Channel, self.channel))

    def for_ms(self, duration_ms: int, **per_sweep: int) -> bool:
        """Sweep for so long; before each sweep counters grow by `per_sweep`. True when it was
        closed.
        """
        for _ in range(duration_ms // 5_000):
            self.time.advance(5_000)
            self.channel.bytes_in += per_sweep.get("bytes_in", 0)
            self.channel.writer.bytes_out += per_sweep.get("bytes_out", 0)
            self.channel.requests += per_sweep.get("requests", 0)
            self.processor.sweep(self.time.monotonic_ms())
            if self.channel.closed:
                return True
        return False


def test_a_silent_connection_is_closed_at_the_idle_time_and_not_before() -> None:
    sweeps = Sweeps(idle_ms=MINUTE_MS)
    assert not sweeps.for_ms(MINUTE_MS - 5_000)
    assert sweeps.for_ms(5_000)
    assert sweeps.processor.idle_closed.value == 1


@pytest.mark.parametrize("counter", ["bytes_in", "bytes_out"])
def test_a_connection_that_moves_bytes_is_not_idle(counter: str) -> None:
    assert not Sweeps(idle_ms=MINUTE_MS).for_ms(5 * MINUTE_MS, **{counter: 1})


def test_a_connection_with_a_request_in_work_is_not_idle() -> None:
    sweeps = Sweeps(idle_ms=MINUTE_MS)
    sweeps.channel.is_busy = True
    assert not sweeps.for_ms(5 * MINUTE_MS)


def test_a_negative_idle_time_means_never() -> None:
    assert not Sweeps(idle_ms=-1).for_ms(60 * MINUTE_MS)


def test_a_frame_slower_than_a_kib_per_second_is_closed_after_30_seconds() -> None:
    sweeps = Sweeps()
    sweeps.channel.awaits_rest_of_frame = True
    assert not sweeps.for_ms(30_000, bytes_in=5 * 1_000)
    assert sweeps.for_ms(5_000, bytes_in=5 * 1_000)
    assert sweeps.processor.slow_closed.value == 1


def test_a_frame_at_a_kib_per_second_may_take_its_time() -> None:
    sweeps = Sweeps()
    sweeps.channel.awaits_rest_of_frame = True
    assert not sweeps.for_ms(10 * MINUTE_MS, bytes_in=5 * 1_024)


def test_a_frame_whose_memory_others_wait_for_must_come_faster() -> None:
    sweeps = Sweeps()
    sweeps.channel.awaits_rest_of_frame = sweeps.channel.is_wanted = True
    assert not sweeps.for_ms(10 * MINUTE_MS, bytes_in=5 * 256 * 1024)
    assert sweeps.for_ms(MINUTE_MS, bytes_in=5 * 128 * 1024)


def test_a_frame_whose_memory_others_wait_for_may_not_stand_still_for_long() -> None:
    sweeps = Sweeps()
    sweeps.channel.awaits_rest_of_frame = sweeps.channel.is_wanted = True
    assert not sweeps.for_ms(10_000)
    assert sweeps.for_ms(5_000)


def test_many_small_frames_are_not_one_slow_frame() -> None:
    sweeps = Sweeps()
    sweeps.channel.awaits_rest_of_frame = True
    assert not sweeps.for_ms(10 * MINUTE_MS, bytes_in=10, requests=1)


def test_an_answer_that_is_not_read_is_dropped_after_60_seconds() -> None:
    sweeps = Sweeps()
    sweeps.channel.is_busy = sweeps.channel.writer.is_blocked = True
    assert not sweeps.for_ms(MINUTE_MS)
    assert sweeps.for_ms(5_000)


def test_an_answer_whose_memory_others_wait_for_must_be_read_sooner() -> None:
    sweeps = Sweeps()
    sweeps.channel.is_busy = sweeps.channel.writer.is_blocked = True
    sweeps.channel.is_wanted = True
    assert not sweeps.for_ms(10_000, bytes_out=5 * 128 * 1024)
    assert sweeps.for_ms(5_000, bytes_out=5 * 128 * 1024)


def test_an_answer_that_is_read_slowly_may_take_its_time() -> None:
    sweeps = Sweeps()
    sweeps.channel.is_busy = sweeps.channel.writer.is_blocked = True
    assert not sweeps.for_ms(10 * MINUTE_MS, bytes_out=5 * 1_024)


def test_counters_include_connections_that_are_gone() -> None:
    sweeps = Sweeps()
    sweeps.for_ms(5_000, bytes_in=10, bytes_out=20)
    channel: Any = sweeps.channel
    sweeps.processor.channel_closed(channel)
    processor = sweeps.processor
    assert (processor.bytes_in, processor.bytes_out) == (10, 20)
    assert (processor.connections, processor.connections_closed.value) == (0, 1)
    assert sweeps.quotas.total == 0


def test_connections_closed_for_what_they_sent_are_told_once_a_minute_of_each_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sweeps = Sweeps()
    connection = sweeps.channel.connection
    error = FrameSizeError(101, 100)

    sweeps.processor.tell_protocol_error(connection, error)
    sweeps.processor.tell_protocol_error(connection, error)
    sweeps.time.advance(MINUTE_MS)
    sweeps.processor.tell_protocol_error(connection, error)

    reason = "frame of 101 bytes (socket.request.max.bytes=100)"
    told = f"closed connection {connection.connection_id}: {reason}"
    assert caplog.messages == [told, f"{told}; similar lines left out: 1"]
