"""Lines of the log: text for people, JSON for programs, and neither can be forged by a name."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest

from kbroker.cli.broker.log_format import JsonFormatter, TextFormatter
from kbroker.line_fields import fields_of

HOSTILE = "x\n2026-01-01 00:00:00,000 ERROR kbroker: lost\r\x1b[2J\x9b31m\u202e\u2028\udcff"


def written(formatter: logging.Formatter, *, fails: bool = False, **fields: str) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    log = logging.Logger("kbroker.some.part")
    log.addHandler(handler)
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        log.warning(
            "%s came", HOSTILE, exc_info=error if fails else None, extra=fields_of("came", **fields)
        )
    return stream.getvalue()


def test_text_is_one_line_that_controls_no_terminal() -> None:
    line = written(TextFormatter(), client_id=HOSTILE)

    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING kbroker.some.part: x\\n", line)


def test_lines_of_a_traceback_are_indented_in_text() -> None:
    first, *others = written(TextFormatter(), fails=True).splitlines()

    assert " WARNING " in first
    assert others[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") and line.isprintable() for line in others)


def test_json_is_one_ascii_line_with_what_is_known() -> None:
    line = written(JsonFormatter(), client_id=HOSTILE, topic="t")

    assert line.isascii()
    assert line.count("\n") == 1
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("ts"))
    assert found.pop("message").startswith("x\\n2026-01-01")
    assert found.pop("client_id") == HOSTILE.replace("\udcff", "\\udcff")
    assert found == {
        "level": "warning",
        "logger": "kbroker.some.part",
        "event": "came",
        "topic": "t",
    }


def test_json_has_a_traceback_in_a_field_of_its_own() -> None:
    line = written(JsonFormatter(), fails=True)

    assert line.count("\n") == 1
    assert json.loads(line)["exception"].startswith("Traceback (most recent call last):\n")


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_line_without_fields_is_written_as_well(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("kbroker", logging.INFO, "f", 1, "plain %d", (1,), None)

    assert "plain 1" in formatter.format(record)
