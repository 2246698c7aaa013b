"""Passwords for commands: from a file, from standard input, or typed twice at a terminal.

Law: never from an argument, which others see (`ps`, a shell's history), and in no error.
"""

from __future__ import annotations

import sys

import click

from kbroker.cli.arguments.connection import CommandError, CommandT, ExitCode

_MOST_BYTES = 64 * 1024


def password_option(command: CommandT) -> CommandT:
    """Give a command `--password-file`; `read_password` takes what it got."""
    return click.option(
        "--password-file",
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        help="File with the password, '-' for standard input. Without it a password is asked for, "
        "or read from standard input if that is not a terminal.",
    )(command)


def read_password(file: str | None, user: str) -> str:
    """Return the password for a user. Raises CommandError for one that cannot be used."""
    if file is None and sys.stdin.isatty():
        typed: str = click.prompt(
            f"Password for {user}", hide_input=True, confirmation_prompt=True, err=True
        )
        return typed
    source = "standard input" if file in (None, "-") else str(file)
    content = _content(file)
    if len(content) > _MOST_BYTES:
        raise _unusable(source, "has more than a password")
    try:
        password = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise _unusable(source, "is not UTF-8") from None  # which would have the bytes
    if not password:
        raise _unusable(source, "is empty: it should have the password")
    if any(each in password for each in "\r\n\0"):
        raise _unusable(source, "has more than one line")
    return password


def _content(file: str | None) -> bytes:
    if file in (None, "-"):
        return sys.stdin.buffer.read(_MOST_BYTES + 1)
    try:
        with open(str(file), "rb") as opened:
            return opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise _unusable(str(file), f"cannot be read: {error.strerror}") from error


def _unusable(source: str, why: str) -> CommandError:
    return CommandError(f"--password-file: {source} {why}", ExitCode.USAGE)
