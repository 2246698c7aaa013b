"""Patterns of topics in RE2's syntax: checked when a member has a new one, matched with names.

Law: google-re2 is imported for the first pattern, and a broker without it refuses them in one
sentence. A pattern costs as much memory as `MOST_BYTES` allows and some milliseconds of the loop;
to match it takes time by its length and the name's, so that is done beside the loop, and ends when
its time is over, or what it has found could not be written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from kbroker.errors import ErrorCode, KafkaError

MOST_BYTES: Final = 1 << 19  # for what RE2 makes of one pattern; a list of names of 32 KB fits in
_REFUSALS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""Kafka's words, which are those of RE2/J, for those of RE2."""


class PatternsTooSlowError(Exception):
    """Patterns that were not matched with all names when their time was over."""


class TooManyMatchesError(Exception):
    """Names that patterns match, and that nobody could write down in one batch."""


def is_library_loaded() -> bool:
    """Whether a pattern can be checked without the import, which takes some milliseconds."""
    return "re2" in sys.modules


def load_library() -> Any:
    """Import the library. Raises KafkaError with one sentence if it is not there."""
    try:
        import re2
    except ImportError:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "SubscribedTopicRegex needs google-re2, which is not installed at the broker: pip"
            " install 'kbroker[patterns]'",
        ) from None
    return re2


def check_pattern(pattern: str) -> None:
    """Raises KafkaError with Kafka's sentence for a pattern that cannot be used."""
    _compiled(pattern)


def matching_names(
    patterns: Collection[str], names: Sequence[str], is_late: Callable[[], bool], most_bytes: int
) -> dict[str, frozenset[str]]:
    """The names that each pattern matches from end to end; a pattern that cannot be used has none.

    Raises PatternsTooSlowError once `is_late`, which is asked between two names,
    TooManyMatchesError for more than `most_bytes` of names, and KafkaError without the library.
    """
    load_library()
    found: dict[str, frozenset[str]] = {}
    left = most_bytes
    for pattern in patterns:
        matches = found[pattern] = frozenset(_matching(pattern, names, is_late))
        left -= sum(map(len, matches))
        if left < 0:
            raise TooManyMatchesError(
                f"{len(patterns):,} patterns match more names than fit into a batch of"
                f" {most_bytes:,} bytes"
            )
    return found


def _matching(pattern: str, names: Sequence[str], is_late: Callable[[], bool]) -> Iterable[str]:
    try:
        compiled = _compiled(pattern)
    except KafkaError:
        return  # it was checked when it came, by a broker that could use it
    for name in names:
        if is_late():
            raise PatternsTooSlowError
        if compiled.fullmatch(name):
            yield name


def _compiled(pattern: str) -> Any:
    re2 = load_library()
    options = re2.Options()
    options.log_errors = False  # into the standard error of the process
    options.max_mem = MOST_BYTES
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression:"
            f" {_refusal(error)}.",
        ) from None
    finally:
        re2.purge()  # it would keep a hundred


def _refusal(error: Exception) -> str:
    """Say in Kafka's words why: RE2 adds the place in the pattern."""
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else "invalid UTF-8"
    reason = text.partition(": ")[0]
    return _REFUSALS.get(reason, reason)
