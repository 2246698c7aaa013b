"""The options of commands that ask a broker's HTTP address."""

from __future__ import annotations

import click

token_option = click.option(
    "--token-file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="File with the token of that address (kbroker.http.token.file).",
)
