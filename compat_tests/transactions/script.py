"""Sequences of requests as text: what a file of `sequences/` says, and what was answered.

Law: a file is all that a reader needs to know what is sent; the order of lines is that of requests.

    settings: producer.id.expiration.ms=1000        (of the broker; at the top of a file)
    level: 2                                        (of `transaction.version`, at least; there too)

    ## a commit shows what was written              (begins a sequence)
    rows: 86 89                                     (questions of the table that it answers)
    init p                                          (verb, then who and what)
    add/0 p t:0                                     (in version 0 of the request)
    end! p commit epoch=own-1                       (`!`: asked once, retriable errors too)

`requests.py` has the verbs. In a recording each step is followed by a line `  -> answer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SEQUENCES = Path(__file__).parent / "sequences"
NOT_SERVED = "not served"
_TITLE, _ANSWER, _ROWS, _SETTINGS, _LEVEL = "## ", "  -> ", "rows:", "settings:", "level:"
_STEP = re.compile(r"(?P<verb>[a-z-]+)(?P<once>!?)(/(?P<version>\d+))?(?P<rest>( .*)?)")


@dataclass(frozen=True)
class Step:
    """One line: `verb/version words key=value`."""

    line: str
    verb: str
    once: bool
    version: int | None
    words: tuple[str, ...]
    options: Mapping[str, str]


@dataclass(frozen=True)
class Sequence:
    """Requests one after the other, of producers, topics and groups that no other sequence uses."""

    title: str  # after that of its file
    steps: tuple[Step, ...]
    rows: tuple[int, ...] = ()
    settings: tuple[str, ...] = ()
    level: int = 0


@dataclass
class _Open:
    title: str
    steps: list[Step] = field(default_factory=list)
    rows: tuple[int, ...] = ()


def parse_step(line: str) -> Step:
    """Raises ValueError for what is not a step."""
    found = _STEP.fullmatch(line)
    if found is None:
        raise ValueError(f"not a step: {line!r}")
    words = found["rest"].split()
    options = dict(word.split("=", 1) for word in words if _is_option(word))
    return Step(
        line=line,
        verb=found["verb"],
        once=bool(found["once"]),
        version=int(found["version"]) if found["version"] else None,
        words=tuple(word for word in words if not _is_option(word)),
        options=options,
    )


def _is_option(word: str) -> bool:
    return "=" in word and ":" not in word.partition("=")[0]


def parse(text: str, file: str = "") -> Iterator[Sequence]:
    """The sequences of a file."""
    settings: tuple[str, ...] = ()
    level = 0
    current: _Open | None = None
    for line in (*text.splitlines(), _TITLE):
        if line.startswith(_TITLE):
            if current is not None:
                title = f"{file}: {current.title}"
                yield Sequence(title, tuple(current.steps), current.rows, settings, level)
            current = _Open(line.removeprefix(_TITLE))
        elif line.startswith(_SETTINGS):
            settings = tuple(line.removeprefix(_SETTINGS).split())
        elif line.startswith(_LEVEL):
            level = int(line.removeprefix(_LEVEL))
        elif line.startswith(_ROWS) and current is not None:
            current.rows = tuple(int(row) for row in line.removeprefix(_ROWS).split())
        elif line and not line.startswith("#"):
            assert current is not None, f"{file}: {line!r} belongs to no sequence"
            current.steps.append(parse_step(line))


def all_sequences() -> tuple[Sequence, ...]:
    """Those of all files; AssertionError where two have one title."""
    found = [
        sequence
        for path in sorted(SEQUENCES.glob("*.txt"))
        for sequence in parse(path.read_text(), path.stem)
    ]
    titles = [sequence.title for sequence in found]
    twice = sorted({title for title in titles if titles.count(title) > 1})
    assert not twice, twice
    return tuple(found)


Answers = tuple[tuple[str, str], ...]  # (step, answer) in their order


def write_answers(answers: Mapping[str, Answers]) -> str:
    """A recording: sequences in the order given, each step with its answer."""
    parts = []
    for title, steps in answers.items():
        lines = [f"{_TITLE}{title}"]
        for step, answer in steps:
            lines += [step, f"{_ANSWER}{answer}"]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def read_answers(text: str) -> dict[str, Answers]:
    """Read what `write_answers` wrote."""
    found: dict[str, list[tuple[str, str]]] = {}
    title = step = ""
    for line in text.splitlines():
        if line.startswith(_TITLE):
            title = line.removeprefix(_TITLE)
            found[title] = []
        elif line.startswith(_ANSWER):
            found[title].append((step, line.removeprefix(_ANSWER)))
        else:
            step = line
    return {title: tuple(steps) for title, steps in found.items()}
