"""The instructions of a Dockerfile, by stage: for tests and for a build without an engine."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parents[2] / "docker" / "Dockerfile"


@dataclass(frozen=True, slots=True)
class Instruction:
    """`word` is RUN, COPY and so on; `options` are those in front of its `text`, as --from=build."""

    word: str
    options: dict[str, str]
    text: str

    def words(self) -> list[str]:
        """The text's words, in either form of a command."""
        words: list[str] = json.loads(self.text) if self.text[0] == "[" else self.text.split()
        return words


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    base: str  # an image, or an earlier stage
    instructions: tuple[Instruction, ...]

    def texts(self, word: str) -> list[str]:
        return [each.text for each in self.instructions if each.word == word]


def stages(path: Path = DOCKERFILE) -> dict[str, Stage]:
    """Stages by name, in the order of the file; arguments have their default values."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.M).replace("\\\n", " ")
    arguments: dict[str, str] = {}
    found: dict[str, Stage] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "ARG":
            name, _, value = rest.partition("=")
            arguments[name] = value
        elif word == "FROM":
            for name, value in arguments.items():
                rest = rest.replace(f"${{{name}}}", value)
            base, _, name = rest.partition(" AS ")
            found[name] = Stage(name, base, ())
        else:
            options = dict(re.findall(r"--(\w+)=(\S+) ", head := _options(rest)))
            done = Instruction(word, options, rest[len(head) :].strip())
            last = found.popitem()[1]
            found[last.name] = Stage(last.name, last.base, (*last.instructions, done))
    return found


def with_bases(name: str, path: Path = DOCKERFILE) -> list[Stage]:
    """A stage, and before it those that it builds on."""
    known = stages(path)
    chain = [known[name]]
    while chain[0].base in known:
        chain.insert(0, known[chain[0].base])
    return chain


def _options(text: str) -> str:
    found = re.match(r"(?:--\w+=\S+ )*", text)
    assert found is not None
    return found.group()
