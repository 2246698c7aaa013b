"""Sequences of raw requests about transactions and producers: kbroker answers as the Apache Kafka
that it follows, whose answers are recorded (`sides.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.answers.accepted import SEQUENCES
from compat_tests.conftest import BrokerProcess
from compat_tests.transactions.differing import Difference, differences, reason
from compat_tests.transactions.runner import run_all, warm_up
from compat_tests.transactions.script import (
    Answers,
    Sequence,
    all_sequences,
    parse,
    parse_step,
    read_answers,
    write_answers,
)
from compat_tests.transactions.sides import (
    LEVELS,
    NEW_AT_0,
    NEW_AT_2,
    OLD,
    SIDES,
    by_settings,
    highest_level,
    level,
    recorded,
    set_level,
    settings_of,
)

_ALL = all_sequences()
_LEAST = 120


class _Played:
    """The answers of one kbroker for each set of settings, at a level of `transaction.version`."""

    def __init__(self, level: int) -> None:
        self.answers: dict[str, Answers] = {}
        self.level = level
        followed, newer = (NEW_AT_2, NEW_AT_2) if level >= 2 else (OLD, NEW_AT_0)
        self._sides = recorded(followed), recorded(newer)

    def play(self, root: Path) -> None:
        for number, sequences in enumerate(by_settings(_ALL).values()):
            options = [
                part
                for item in settings_of(sequences[0]).items()
                for part in ("--override", "=".join(item))
            ]
            broker = BrokerProcess(root / f"broker-{number}" / "data", tuple(options))
            broker.start()
            try:
                if highest_level(broker.bootstrap) < self.level:
                    pytest.skip(f"has no transaction.version {self.level}")
                if level(broker.bootstrap) != self.level:
                    set_level(broker.bootstrap, self.level)
                warm_up(broker.bootstrap)
                asked = [each for each in sequences if each.level <= self.level]
                self.answers |= run_all(broker.bootstrap, asked)
            finally:
                assert broker.stop() == 0
            assert "Traceback" not in broker.log_text(), broker.log_text()[-3000:]

    def differences(self, title: str) -> list[Difference]:
        return list(differences(title, self.answers.get(title, ()), *self._sides))


@pytest.fixture(scope="module", params=[0, 2], ids=["level 0", "level 2"])
def played(
    request: pytest.FixtureRequest, target: str, tmp_path_factory: pytest.TempPathFactory
) -> _Played:
    if target != "kbroker":
        pytest.skip("starts kbrokers of its own; `sides.py` asks Apache Kafka")
    played = _Played(request.param)
    played.play(tmp_path_factory.mktemp("sequences"))
    return played


@pytest.mark.parametrize("sequence", _ALL, ids=lambda each: each.title)
def test_a_sequence_is_answered_as_kafka_answers_it(played: _Played, sequence: Sequence) -> None:
    if sequence.level > played.level:
        pytest.skip(f"needs transaction.version {sequence.level}")

    differing = played.differences(sequence.title)
    found = [each for each in differing if reason(each, played.level) is None]

    assert [str(each) for each in found] == []


def test_every_accepted_difference_is_one(played: _Played) -> None:
    differing = [each for sequence in _ALL for each in played.differences(sequence.title)]
    seen = {reason(each, played.level) for each in differing}

    here = [entry for entry in SEQUENCES if played.level in entry.levels]
    assert [entry for entry in here if entry not in seen] == []


def test_every_sequence_is_recorded_from_each_apache_kafka_that_can_play_it() -> None:
    assert len(_ALL) >= _LEAST
    for side in SIDES:
        played = {each.title: each for each in _ALL if each.level <= LEVELS[side]}
        held = recorded(side)
        assert list(held) == list(played)
        for title, steps in held.items():
            assert [step for step, _ in steps] == [step.line for step in played[title].steps]
            assert not any(answer.startswith("not reached") for _, answer in steps), title


def test_one_answer_that_differs_is_found() -> None:
    own = (("init p", "OK"), ("end p commit", "INVALID_TXN_STATE"))
    apache = {"a": (("init p", "OK"), ("end p commit", "OK"))}
    older = {"a": (("init p", "OK"), ("end p commit", "not served"))}

    (found,) = differences("a", own, apache, {})
    assert str(found) == "end p commit: INVALID_TXN_STATE, Apache OK"
    assert list(differences("a", own, older, apache)) == [found]
    assert list(differences("a", apache["a"], older, apache)) == []
    assert list(differences("a", own, {}, {})) == []


def test_a_file_is_read_as_it_is_written() -> None:
    text = "settings: a=1\n\n## one\nrows: 3 4\ninit/1 p id=own+1\n# why\nend! p commit\n\n## two\n"

    one, two = parse(text, "file")

    assert (one.title, one.rows, one.settings) == ("file: one", (3, 4), ("a=1",))
    first, second = one.steps
    assert (first.verb, first.version, first.words) == ("init", 1, ("p",))
    assert (first.options, first.once) == ({"id": "own+1"}, False)
    assert (second.version, second.words, second.once) == (None, ("p", "commit"), True)
    assert two.steps == ()
    assert parse_step("commit p g t:0=5").words == ("p", "g", "t:0=5")
    answers = {"file: one": (("init/1 p id=own+1", "OK"), ("end! p commit", "OK"))}
    assert read_answers(write_answers(answers)) == answers
