from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

from kbroker.cli.metrics.board import board

PANELS: list[dict[str, Any]] = board()["panels"]


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size]
        for at, size in (("x", "w"), ("y", "h"))
    )


def test_panels_have_numbers_and_places_of_their_own() -> None:
    places = [panel["gridPos"] for panel in PANELS]

    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert [pair for pair in combinations(places, 2) if overlap(*pair)] == []
    assert max(place["x"] + place["w"] for place in places) <= 24


def test_queries_use_variables_that_the_board_has() -> None:
    text = json.dumps(board())
    known = {variable["name"] for variable in board()["templating"]["list"]}

    used = set(re.findall(r"\$\{?(\w+)", text))

    assert used - {"__rate_interval", "__all"} == known
    assert not re.search(r"BROKER|TOPIC|GROUP|RATE", text)
