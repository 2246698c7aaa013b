"""Tables of topics while their broker is away."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.rule_jobs.lookup_tables import LookupTables
from kbroker.pipeline.rule_jobs.rule_spec import TableSpec


def test_a_table_of_a_topic_waits_for_a_broker_that_restarts(spark: Any) -> None:
    said: list[bool] = []  # whether the broker was away
    now_s = [0.0]
    away: Iterator[bool] = chain([False], repeat(True, 50), [False], repeat(True))

    def earliest() -> dict[str, int]:
        said.append(next(away))
        if said[-1]:
            raise PipelineError("no broker answered", ExitCode.CANNOT_CONNECT)
        return {}

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    source: Any = SimpleNamespace(earliest=earliest, latest=dict)
    spec = TableSpec(
        name="codes", path=None, topic="t", form="json", columns={"code": "STRING"}, reload_us=0
    )
    tables = LookupTables([spec], lambda _: source, lambda: now_s[0], sleep)

    assert tables.views(spark) == []
    assert tables.views(spark) == []
    assert said == [False, *[True] * 50, False]
    assert 10 < now_s[0] < 60
    (note,) = tables.views(spark)
    assert note.endswith("no broker answered; rules go on with the rows it had")
