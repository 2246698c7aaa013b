"""Levels of loggers, altered and described while the process runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kbroker.admin.broker_loggers import (
    alter_loggers,
    describe_loggers,
    validate_logger_changes,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

SET, DELETE, APPEND, SUBTRACT = range(4)
NAMES = ("some.parent", "some.parent.child", "some.other")


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Loggers of the test's own; levels are as they were when it is over."""
    before = logging.root.level
    for name in ("some.parent.child", "some.other"):
        logging.getLogger(name)
    yield
    logging.root.setLevel(before)
    for name in NAMES:
        logging.getLogger(name).setLevel(logging.NOTSET)


def change(
    name: str, operation: int, value: str | None = None
) -> IncrementalAlterConfigsRequest.AlterableConfig:
    return IncrementalAlterConfigsRequest.AlterableConfig(
        name=name, config_operation=operation, value=value
    )


def alter(name: str, operation: int, value: str | None = None) -> None:
    wanted = [change(name, operation, value)]
    validate_logger_changes(wanted)
    alter_loggers(wanted)


def levels() -> dict[str, str | None]:
    return {entry.name: entry.value for entry in describe_loggers()}


def test_a_level_holds_for_the_logger_and_those_below_it() -> None:
    alter("root", SET, "ERROR")

    alter("some.parent", SET, "DEBUG")

    assert logging.getLogger("some.parent.child").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("some.other").isEnabledFor(logging.WARNING)
    shown = levels()
    assert [shown[name] for name in ("root", *NAMES)] == ["ERROR", "DEBUG", "DEBUG", "ERROR"]


def test_a_deleted_level_is_that_of_the_parent_again() -> None:
    alter("root", SET, "WARN")
    alter("some.parent", SET, "TRACE")
    alter("some.parent.child", SET, "FATAL")
    assert levels()["some.parent.child"] == "FATAL"

    alter("some.parent.child", DELETE)
    assert levels()["some.parent.child"] == "TRACE"
    alter("some.parent", DELETE)

    assert levels()["some.parent.child"] == "WARN"


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
def test_every_level_reads_back_as_it_was_written(level: str) -> None:
    alter("some.other", SET, level)

    assert levels()["some.other"] == level


@pytest.mark.parametrize(("number", "shown"), [(25, "WARN"), (1, "TRACE"), (51, "OFF")])
def test_levels_of_libraries_show_what_they_let_through(number: int, shown: str) -> None:
    logging.getLogger("some.other").setLevel(number)

    assert levels()["some.other"] == shown


@pytest.mark.parametrize(
    ("name", "operation", "value", "code", "sentence"),
    [
        ("no.such", SET, "INFO", 40, "Logger no.such does not exist!"),
        ("no.such", DELETE, None, 40, "Logger no.such does not exist!"),
        ("", SET, "INFO", 40, "Logger  does not exist!"),
        (
            "some.other",
            SET,
            "OFF",
            40,
            "Cannot set the log level of some.other to OFF as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        ("root", DELETE, None, 42, "Removing the log level of the root logger is not allowed"),
        (
            "root",
            APPEND,
            "INFO",
            42,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            "no.such",
            SUBTRACT,
            "INFO",
            42,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        ("root", 4, "INFO", -1, None),
    ],
)
def test_what_cannot_be_is_refused(
    name: str, operation: int, value: str | None, code: int, sentence: str | None
) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_logger_changes([change(name, operation, value)])
    assert (caught.value.code, caught.value.message) == (ErrorCode(code), sentence)


def test_asking_for_a_logger_makes_none() -> None:
    with pytest.raises(KafkaError):
        validate_logger_changes([change("some.parent.misspelt", SET, "INFO")])

    assert "some.parent.misspelt" not in levels()
