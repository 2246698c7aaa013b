"""Addresses of hosts, which the system may take long to find."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.admin import host_names
from kbroker.admin.host_names import AskedHosts, address_of

LONG_S = 30.0


class Resolver:
    """A system that finds one host, and waits at all others until it is let go."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []  # (name, whether the process could end meanwhile)
        self.go = threading.Event()

    def getaddrinfo(self, name: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append((name, threading.current_thread().daemon))
        if name == "near.example":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 0))]
        self.go.wait(LONG_S)
        raise OSError("no such host")


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    made = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)
    yield made
    made.go.set()


async def test_a_host_is_looked_up_on_a_thread_that_nobody_waits_for_in_the_end(
    resolver: Resolver,
) -> None:
    assert await address_of("near.example") == "10.0.0.7"
    assert await address_of("far.example", 0.001) is None
    assert resolver.asked == [("near.example", True), ("far.example", True)]


async def test_the_hosts_of_a_request_share_the_time_that_it_waits_for_the_system(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_names, "PATIENCE_S", 0.01)
    asked = AskedHosts()

    found = [await asked.address_of(name) for name in ("a.example", "b.example", "10.0.0.1")]

    assert found == [None, None, "10.0.0.1"]
    assert [name for name, _ in resolver.asked] == ["a.example"], "the others are refused at once"


async def test_a_host_is_looked_up_once_for_a_request(resolver: Resolver) -> None:
    asked = AskedHosts()
    assert [await asked.address_of("near.example") for _ in range(3)] == ["10.0.0.7"] * 3
    assert len(resolver.asked) == 1


async def test_what_the_system_says_of_a_name_that_it_does_not_know_is_no_address(
    resolver: Resolver,
) -> None:
    resolver.go.set()
    assert await address_of("far.example") is None
    assert await address_of("far example") is None
