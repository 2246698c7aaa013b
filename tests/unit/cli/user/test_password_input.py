"""A password is read whole, from where the person has it, and no refusal repeats it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.user.password_input import password_option, read_password


@click.command()
@password_option
def show(password_file: str | None) -> None:
    click.echo(repr(read_password(password_file, "ann")))


def said(*arguments: str, typed: bytes = b"") -> Result:
    return CliRunner().invoke(show, arguments, input=typed, standalone_mode=False)


@pytest.mark.parametrize(
    ("content", "password"),
    [(b"secret\n", "secret"), (b" s\xc3\xa9cret \r\n", " sécret "), (b"secret", "secret")],
)
def test_one_end_of_line_is_no_part_of_it(tmp_path: Path, content: bytes, password: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    for result in (said("--password-file", str(file)), said(typed=content)):
        assert result.stdout == f"{password!r}\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\n", "is empty"),
        (b"secret\nother\n", "more than one line"),
        (b"secret\0", "more than one line"),
        (b"secret\xff", "is not UTF-8"),
        (b"secret" * 20_000, "more than a password"),
    ],
)
def test_a_password_that_cannot_be_one_is_refused_without_it(content: bytes, reason: str) -> None:
    error = said(typed=content).exception
    assert isinstance(error, CommandError)
    assert reason in error.format_message()
    assert "secret" not in error.format_message()


def test_it_is_typed_twice_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["secret", "other", "secret", "secret"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: next(typed))
    assert read_password(None, "ann") == "secret"
    assert list(typed) == []
