"""Whatever is written, stored and undone: a timeline is what a list of whole states says."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from kbroker.coordinator.runtime.timeline import Timeline, TimelineDict

KEYS = ("a", "b", "c")
CHANGES = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 9)), max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), CHANGES),
        st.tuples(st.just("store"), st.integers(0, 3)),
        st.tuples(st.just("undo"), st.integers(0, 3)),
        st.tuples(st.just("final"), CHANGES),
    ),
    max_size=20,
)


def change(entries: TimelineDict[str, int], state: dict[str, int], changes: list) -> None:
    for key, value in changes:
        if value is None:
            entries.pop(key, None)
            state.pop(key, None)
        else:
            entries[key] = state[key] = value


@given(STEPS)
def test_newest_and_stored_values_are_those_of_whole_states(steps: list) -> None:
    timeline = Timeline()
    entries: TimelineDict[str, int] = TimelineDict(timeline)
    states: list[tuple[int, dict[str, int]]] = [(0, {})]  # the stored one, then one per write
    number = 0
    for name, argument in steps:
        if name == "write":
            number += 1
            state = dict(states[-1][1])
            timeline.begin(number)
            change(entries, state, argument)
            timeline.end()
            states.append((number, state))
        elif name == "store":
            states = states[min(argument, len(states) - 1) :]
            timeline.store(states[0][0])
        elif name == "undo" and len(states) > 1:
            kept = max(1, len(states) - argument)
            if kept < len(states):
                timeline.roll_back(states[kept][0])
            states = states[:kept]
        elif name == "final" and not timeline and len(states) == 1:
            change(entries, states[0][1], argument)

        assert dict(entries) == states[-1][1]
        assert {key: entries.stored(key) for key in entries.stored_keys()} == states[0][1]
        touched = {key for key in KEYS if not entries.is_stored(key)}
        different = {
            key for key in KEYS for _, state in states if state.get(key) != states[0][1].get(key)
        }
        assert different <= touched
        assert entries.may_change_back is bool(touched)  # nothing here is in the log
