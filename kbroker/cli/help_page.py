"""Topics of help: docs/troubleshooting.md, cut at its headings, and without its markup for a
terminal. Pure: the text of the page is given.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_PART = re.compile(r"^## ", re.MULTILINE)
_TOPIC = re.compile(r"^### ", re.MULTILINE)
_CODE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SAID = re.compile(r"\*\*`(.*?)`", re.DOTALL)
_BOLD = re.compile(r"\*\*(.*?)\*\*", re.DOTALL)
_QUOTED = re.compile(r"`(.*?)`", re.DOTALL)
_WORD = re.compile(r"[\w.]*\w")
_HERE = re.compile(r"\[([^\]]*)\]\(#([\w-]+)\)")
_ELSEWHERE = re.compile(r"\[([^\]]*)\]\((\w+\.md)[^)]*\)")
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class HelpTopic:
    """A section of the page: its `name` is the anchor of its heading, `part` the heading above."""

    name: str
    part: str
    heading: str
    text: str

    @property
    def line(self) -> str:
        """The first sentence that the section explains; its heading if it explains none."""
        found = _SAID.search(self.text)
        return self.heading if found is None else " ".join(found[1].split())

    def said_words(self) -> set[str]:
        """Return the words of all sentences that the section explains, in lower case."""
        said = " ".join(_QUOTED.findall(" ".join(_BOLD.findall(self.text))))
        return set(_WORD.findall(said.lower()))

    def lines(self, width: int) -> Iterator[str]:
        """Yield the text for a terminal of `width` columns; code is not folded."""
        yield self.name
        for index, piece in enumerate(_CODE.split(self.text)):
            if index % 2:
                yield ""
                yield textwrap.indent(piece.rstrip("\n"), _INDENT)
                continue
            for paragraph in filter(None, map(_plain, piece.split("\n\n"))):
                yield ""
                yield textwrap.fill(
                    paragraph, width, break_long_words=False, break_on_hyphens=False
                )


def help_topics(page: str) -> dict[str, HelpTopic]:
    r"""Return the topics by name, in the order of the page.

    >>> list(help_topics("## What a start says\n\n### Disk full\n\nFree some space."))
    ['disk-full']
    """
    found = {}
    for text in _PART.split(page)[1:]:
        head, *sections = _TOPIC.split(text)
        for section in sections:
            heading, _, below = section.partition("\n")
            name = _anchor(heading)
            found[name] = HelpTopic(name, head.partition("\n")[0], heading, below.strip())
    return found


def topics_about(topics: Iterable[HelpTopic], words: Sequence[str]) -> list[HelpTopic]:
    """Return the topics with all these words in their name, else in a sentence they explain."""
    wanted = {word.lower() for word in words}
    all_topics = list(topics)
    return [topic for topic in all_topics if wanted <= set(topic.name.split("-"))] or [
        topic for topic in all_topics if wanted <= topic.said_words()
    ]


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _plain(paragraph: str) -> str:
    text = " ".join(paragraph.split()).replace("**", "")
    return _ELSEWHERE.sub(r"\1 (docs/\2)", _HERE.sub(r"\1 (`kbroker help \2`)", text))
