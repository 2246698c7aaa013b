"""HTML as values, made by functions in place of templates: `element("td", name)`.

Law: text is escaped wherever it stands, and what a terminal or a reader would obey (control
characters, marks that turn the direction of a line) is shown instead. Only this module makes
`Html`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from typing import Final, TypeAlias

_AT_ONCE: Final = 16 * 1024  # letters: all other threads wait for a millisecond
_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_CONTROLS: Final = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"},
    0x7F: chr(0x2421),
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **{
        code: f"\\u{code:04x}"
        for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
}
"""Pictures or escapes of characters that one would not see."""


class Html(str):
    """A piece of a page, escaped already."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
"""What an element may hold: text, numbers, elements (as `Html`), several of these, or nothing."""

Attribute: TypeAlias = str | int | bool | None


def element(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element. Attributes lose an underscore at their end, and have hyphens for others;
    True stands for one without value, None and False for none.

    >>> element("a", "1 < 2", href="/topics?q=a&page=2", data_key="t", hidden=False)
    '<a href="/topics?q=a&amp;page=2" data-key="t">1 &lt; 2</a>'
    """
    head = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{head}>")
    return Html(f"<{name}{head}>{joined(*children)}</{name}>")


class Tag:
    """An element whose attributes are the same each time, made ready once: for those of which a
    page has very many.

    >>> Tag("td", class_="number")("1 < 2")
    '<td class="number">1 &lt; 2</td>'
    """

    def __init__(self, name: str, /, **attributes: Attribute) -> None:
        head = "".join(_attribute(key, value) for key, value in attributes.items())
        self._opening, self._closing = f"<{name}{head}>", f"</{name}>"

    def __call__(self, *children: Child) -> Html:
        """Return the element with these children."""
        return Html(f"{self._opening}{''.join(map(_text, children))}{self._closing}")


def joined(*children: Child) -> Html:
    """Return pieces one after the other.

    >>> joined("a&b", [element("br"), None, 3])
    'a&amp;b<br>3'
    """
    return Html("".join(_text(child) for child in children))


def exact(text: str) -> Html:
    """Return a text that a form sends back as it is, with whatever characters are in it. A newline
    at its beginning, which browsers drop in a text area, is doubled.
    """
    return Html(("\n" if text.startswith("\n") else "") + escape(text))


def visible(text: str) -> str:
    r"""Return a text with signs for characters that steer terminals, and the direction of lines.

    >>> visible("\x1b[31mred")
    '␛[31mred'
    """
    if len(text) <= _AT_ONCE:
        return text.translate(_CONTROLS)
    pieces = (text[at : at + _AT_ONCE] for at in range(0, len(text), _AT_ONCE))
    return "".join(piece.translate(_CONTROLS) for piece in pieces)


def document(page: Html) -> bytes:
    """Return a page as bytes; halves of characters become escapes."""
    return f"<!doctype html>\n{page}\n".encode("utf-8", "backslashreplace")


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(visible(child))
    if isinstance(child, int):
        return str(child)
    return "".join(map(_text, child))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _name_of(key)
    if value is True:
        return f" {name}"
    shown = value if isinstance(value, Html) else escape(visible(str(value)))
    return f' {name}="{shown}"'


@cache
def _name_of(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")
