"""The screen of `kbroker top`, driven by keys in a terminal of 80 columns and 24 lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from textual.pilot import Pilot

from kbroker.cli.shown.fitted_table import columns_of
from kbroker.cli.top.look import Connections, Look, Trouble
from kbroker.cli.top.screen import TopScreen
from kbroker.cli.top.wanted import Wanted
from tests.unit.cli.top.looks import look
from tests.unit.cli.top.test_lines import CONNECTION

EVIL = "\x1b[31mred\u202e\n<b>[bold]"
RATES = {f"topic-{n:03}": float(n) for n in range(40)} | {EVIL: 99.0, "__internal": 1.0}


class Person:
    """Somebody at a screen, who gets the looks that a test gives, when it gives them."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[Look | Trouble] = asyncio.Queue()
        self.screen = TopScreen(self._looks(), "127.0.0.1:9092", Wanted())
        self.pilot: Pilot[None]

    async def _looks(self) -> AsyncIterator[Look | Trouble]:
        while True:
            yield await self.given.get()

    async def after(self, *keys: str, seen: Look | Trouble | None = None) -> list[str]:
        """The lines of the terminal, from the first to the last, after these keys or a look."""
        if seen is not None:
            self.given.put_nowait(seen)
        await self.pilot.press(*keys)
        await self.pilot.pause()
        shown = [widget for widget in self.screen.screen.children if widget.display]
        return [
            widget.render_line(y).text.rstrip()
            for widget in shown
            for y in range(widget.size.height)
        ]


@pytest.fixture
async def person() -> AsyncIterator[Person]:
    found = Person()
    async with found.screen.run_test(size=(80, 24)) as found.pilot:
        yield found


async def test_tables_are_usable_in_80_columns_and_24_lines(person: Person) -> None:
    assert "asking" in (await person.after())[0]

    first = await person.after(seen=look(RATES, lags={"billing": 10, "audit": 3}))
    assert len(first) == 24
    assert max(map(columns_of, first)) <= 80
    assert first[0] == "kbroker top  127.0.0.1:9092  1 broker, 42 topics, 42 partitions, 2 groups"
    assert "▼RECORDS/S" in first[2]
    assert first[3].startswith("\\x1b[31mred\\u202e\\n")
    assert [line.split()[0] for line in first[4:6]] == ["topic-039", "topic-038"]
    assert "q quit" in first[23]
    assert not any("\x1b" in line or "__internal" in line for line in first)

    assert (await person.after("pagedown"))[3].split()[0] < "topic-030"
    last = await person.after("i", "end")
    assert any(line.startswith("__internal") for line in last)
    assert last[21].split()[0] == "topic-000"
    turned = await person.after("home", "r")
    assert ("▲RECORDS/S" in turned[2], turned[3].split()[0]) == (True, "topic-000")

    groups = await person.after("2")
    assert [line.split()[:2] for line in groups[3:5]] == [["billing", "10"], ["audit", "3"]]
    assert "▼CATCHES UP" in (await person.after("s"))[2]
    assert "7 kafka.example:9092" in (await person.after("tab"))[3]
    assert "--url http://HOST:PORT" in (await person.after("4"))[22]
    there = look(RATES, connections=Connections([CONNECTION], ()))
    assert "apache-kafka-…" in (await person.after(seen=there))[3]


async def test_it_filters_holds_says_what_is_away_and_takes_any_size(person: Person) -> None:
    seen = look(RATES, lags={"billing": 10})
    await person.after(seen=seen)

    found = await person.after("slash", "0", "1", "enter")
    assert [line.split()[0] for line in found[3:6]] == ["topic-019", "topic-018", "topic-017"]
    assert "with '01'" in found[1]
    assert len([line for line in await person.after("escape") if "topic-" in line]) > 10

    away = await person.after(seen=Trouble("no broker\x1b[2J answers"))
    assert "no broker\\x1b[2J answers; asking again" in away[22]
    assert away[4].startswith("topic-039")
    assert "asking again" not in (await person.after(seen=seen))[22]

    await person.after("space")
    held = await person.after(seen=look({"other": 5.0}))
    assert (held[4].split()[0], "held" in held[1]) == ("topic-039", True)
    await person.after("space")
    assert (await person.after(seen=look({"other": 5.0})))[3].startswith("other")

    await person.pilot.resize_terminal(130, 30)
    wide = await person.after("2", seen=seen)
    assert (len(wide), "MOST BEHIND" in wide[2]) == (30, True)
    await person.pilot.resize_terminal(40, 10)
    assert max(map(columns_of, await person.after())) <= 40

    await person.pilot.press("q")
    assert person.screen.return_code == 0
