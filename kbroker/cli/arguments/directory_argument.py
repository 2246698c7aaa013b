"""Types of arguments that name a directory."""

from __future__ import annotations

from typing import Any

import click


class PlaceArgument(click.Path):
    """A directory to look into, or a file. An empty name, such as an unset variable gives, is
    refused: it would mean the working directory, or the root.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | Any:
        if not str(value).strip():
            self.fail(f"'{value}' is empty: give a directory", param, ctx)
        return super().convert(value, param, ctx)


class DirectoryArgument(PlaceArgument):
    """A directory to work in, which need not exist."""

    def __init__(self) -> None:
        super().__init__(file_okay=False)
