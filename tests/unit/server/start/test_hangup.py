"""What a broker does when it gets SIGHUP."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from kbroker.server.start.hangup import follow_hangups
from tests.fakes.running.waiting import until


async def test_certificates_are_read_again_and_without_any_a_line_says_that_nothing_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers, ends = [False, True], asyncio.Event()
    follow_hangups(answers.pop, ends.set)
    with caplog.at_level(logging.INFO):
        for left in (1, 0):
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda left=left: len(answers) == left)
    asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

    assert caplog.messages == [
        "SIGHUP: certificates were read again",
        "SIGHUP: no listener has TLS, so there is nothing to read again",
    ]
    assert not ends.is_set()
