"""README and the pages of `docs/` as text: code blocks, headings, anchors, names in code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """A command of a console block and the lines below it."""

    command: str
    output: str


@cache
def text_of(page: str) -> str:
    """The text of a page: `README`, or the name of a page of `docs/`."""
    path = README if page == "README" else DOCS / f"{page}.md"
    return path.read_text(encoding="utf-8")


@cache
def whole_text() -> str:
    """All pages in one."""
    return "\n".join(path.read_text(encoding="utf-8") for path in PAGES)


def blocks(language: str, text: str) -> list[str]:
    """The code blocks in a language, each once."""
    return list(dict.fromkeys(code for kind, code in _FENCE.findall(text) if kind == language))


def printed(code: str) -> list[str]:
    """List the outputs that comments after printing lines promise."""
    return re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)


def shown_commands(text: str) -> list[Shown]:
    """List the commands in console blocks, in order; those on two pages appear twice."""
    shown = [code for kind, code in _FENCE.findall(text) if kind == "console"]
    pieces = [piece for block in shown for piece in re.split(r"^\$ ", block, flags=re.M)]
    return [Shown(*piece.split("\n", 1)) for piece in pieces if piece]


def section(text: str, heading: str) -> str:
    """Return the text below a heading, up to the next one of its level or above."""
    level = heading.partition(" ")[0]
    below = text.partition(f"\n{heading}\n")[2]
    return re.split(rf"\n#{{1,{len(level)}}} ", below)[0]


def without_blocks(text: str) -> str:
    """The text without its code blocks."""
    return _FENCE.sub("", text)


def code_words(text: str) -> list[str]:
    """List the texts between backticks, outside of code blocks."""
    return [" ".join(word.split()) for word in re.findall(r"`([^`]+)`", without_blocks(text))]


def headings(text: str) -> list[str]:
    """All headings, without their hashes."""
    return re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors that a repository page and the site give to headings."""
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings(text)]
    return {heading.replace(" ", "-") for heading in plain}


def links(text: str) -> list[str]:
    """The targets of links and pictures."""
    return re.findall(r"\]\(([^)\s]+)\)", without_blocks(text))
