from __future__ import annotations

import asyncio

import pytest

from kbroker.client.client_error import ClientError
from kbroker.console.web.sampling import KEPT_S, MOST, POINTS, STEP_S, Figures, Sampling

pytestmark = pytest.mark.virtual_time


async def test_samples_are_taken_until_nobody_has_looked_for_a_while() -> None:
    sampling, taken = Sampling(), 0

    async def measure() -> Figures:
        nonlocal taken
        taken += 1
        return {"n": taken}

    series = await sampling.look("a", measure)
    await asyncio.sleep(3 * STEP_S + 1)
    assert await sampling.look("a", measure) is series
    assert [each.value for each in series.points("n")] == [1, 2, 3, 4]
    await asyncio.sleep(2 * KEPT_S)
    assert len(sampling) == 0
    assert len(series.samples) == POINTS
    before = taken
    await asyncio.sleep(KEPT_S)
    assert taken == before


async def test_a_cluster_that_is_away_leaves_a_gap_and_no_more_than_some_is_sampled() -> None:
    sampling, is_away = Sampling(), True

    async def measure() -> Figures:
        if is_away:
            raise ClientError("it is away")
        return {"n": 1.0}

    with pytest.raises(ClientError):
        await sampling.look("a", measure)
    is_away = False
    series = await sampling.look("a", measure)
    is_away = True
    await asyncio.sleep(STEP_S + 1)
    assert series.trouble == "it is away"
    is_away = False
    await asyncio.sleep(STEP_S)
    assert series.trouble is None
    assert [each.value for each in series.points("n")] == [1.0, None, 1.0]
    for number in range(MOST):
        await sampling.look(f"{number}", measure)
    assert len(sampling) == MOST
    assert await sampling.look("a", measure) is not series
    sampling.close()
    assert len(sampling) == 0


async def test_a_subject_whose_sampling_ended_by_a_bug_begins_again() -> None:
    sampling, is_wrong = Sampling(), False

    async def measure() -> Figures:
        return {"n": 1 / (not is_wrong)}

    series = await sampling.look("a", measure)
    is_wrong = True
    await asyncio.sleep(STEP_S + 1)
    is_wrong = False
    assert series.task is not None
    assert isinstance(series.task.exception(), ZeroDivisionError)
    again = await sampling.look("a", measure)
    await asyncio.sleep(STEP_S + 1)
    assert [each.value for each in again.points("n")] == [1.0, 1.0]
    sampling.close()


async def test_a_cluster_that_answers_slowly_is_asked_less_often() -> None:
    sampling = Sampling()

    async def measure() -> Figures:
        await asyncio.sleep(5)
        return {}

    series = await sampling.look("a", measure)
    await asyncio.sleep(400)
    assert len(series.samples) <= 6
    sampling.close()
