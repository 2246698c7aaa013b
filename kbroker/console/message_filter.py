"""Filters of messages: by text, key, header, or a place in the JSON of the value. Nothing in them
is run as code.

Law: all that is asked for must hold. Texts are compared as they are, with their case. A value that
is not JSON never fits a condition on JSON. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kbroker.console.json_paths import JsonCondition, json_condition
from kbroker.console.message_form import MessageForm
from kbroker.record.default_record import Record

_MOST_LETTERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """The marks that messages must have. `text`: somewhere in key, value or headers; `key`: in the
    key; `header`: a header of this name, or with `=` a header with this text in its value.
    """

    text: str = ""
    key: str = ""
    header: str = ""
    condition: JsonCondition | None = None

    @property
    def is_empty(self) -> bool:
        """Whether every message fits."""
        return self == EVERYTHING

    def fits(self, record: Record, form: MessageForm) -> bool:
        """Whether a message, which is of this form, fits."""
        if self.key and self.key.encode() not in form.searched_key(record):
            return False
        if self.header and not self._has_header(record):
            return False
        if self.text and not self._has_text(record, form):
            return False
        return self.condition is None or _holds(self.condition, record, form)

    def _has_text(self, record: Record, form: MessageForm) -> bool:
        wanted = self.text.encode()
        if wanted in form.searched_value(record) or wanted in form.searched_key(record):
            return True
        return any(self.text in name or wanted in (data or b"") for name, data in record.headers)

    def _has_header(self, record: Record) -> bool:
        name, sign, text = self.header.partition("=")
        wanted = text.encode()
        return any(
            found == name and (not sign or wanted in (data or b""))
            for found, data in record.headers
        )


EVERYTHING: Final = MessageFilter()


def message_filter(
    text: str = "", key: str = "", header: str = "", json_path: str = ""
) -> MessageFilter:
    """Return a filter from what a person entered; empty texts ask for nothing.

    Raises ValueError with a sentence.
    """
    for name, entered in (("text", text), ("key", key), ("header", header)):
        if len(entered) > _MOST_LETTERS:
            raise ValueError(f"a filter by {name} has at most {_MOST_LETTERS:,} letters")
        try:
            entered.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the filter by {name} has half a character") from error
    if header.startswith("="):
        raise ValueError(f"'{header}' names no header: give NAME or NAME=TEXT")
    condition = json_condition(json_path) if json_path.strip() else None
    return MessageFilter(text=text, key=key, header=header, condition=condition)


def _holds(condition: JsonCondition, record: Record, form: MessageForm) -> bool:
    try:
        return condition.holds(form.value_json(record))
    except ValueError:
        return False
