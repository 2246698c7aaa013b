from __future__ import annotations

import asyncio
import sys

import pytest

from kbroker.server.start.event_loop import EventLoopKind, loop_factory, run_on_loop


async def kind_of_loop() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_plain_asyncio_runs_on_request() -> None:
    assert run_on_loop(kind_of_loop(), EventLoopKind.ASYNCIO) == "asyncio"


def test_uvloop_runs_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")
    assert run_on_loop(kind_of_loop()) == "uvloop"


def test_without_uvloop_auto_is_plain_and_demanding_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory(EventLoopKind.AUTO) is asyncio.new_event_loop
    with pytest.raises(ModuleNotFoundError):
        loop_factory(EventLoopKind.UVLOOP)
