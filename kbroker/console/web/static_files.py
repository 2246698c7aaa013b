"""The files of the console that never change: style, script, icon; read once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from kbroker.console.web.console import Console
from kbroker.console.web.page import SECURITY
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.web_request import RefusedError, WebRequest
from kbroker.http.answers import Answer

_FOLDER = Path(__file__).with_name("static")
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


async def static_file(_console: Console, request: WebRequest) -> Answer:
    """Return a file. Raises RefusedError if it is not one of them."""
    found = static_files().get(request.places["name"])
    if found is None:
        raise RefusedError(404, "there is no such file")
    return found


@cache
def static_files() -> dict[str, Answer]:
    """Return the files by name."""
    return {
        path.name: Answer(
            body=path.read_bytes(), content_type=_TYPES[path.suffix], headers=SECURITY
        )
        for path in _FOLDER.iterdir()
        if path.suffix in _TYPES
    }


ROUTES: Final = (WebRoute(pattern="/static/{name}", respond=static_file),)
