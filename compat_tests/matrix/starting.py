"""How the program of a client is started, by its kind. Raises NotAvailableError with what is missing."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from compat_tests.clients.go_clients import SOURCE as GO_MODULES
from compat_tests.clients.go_clients import built
from compat_tests.clients.java_clients import compile_java, java_command
from compat_tests.clients.java_clients import jars as java_jars
from compat_tests.clients.node_clients import SOURCE as NODE_PACKAGES
from compat_tests.matrix.client import Client
from compat_tests.matrix.program import Program
from compat_tests.running.prerequisites import cached_folder, npm_packages, require_program

SERVING = Path(__file__).parent / "serving"
_ROOT = Path(__file__).resolve().parent.parent.parent


def start(client: Client, bootstrap: str) -> Program:
    """Start the client's program. Raises NotAvailableError."""
    for name, hint in client.needs.items():
        require_program(name, hint)
    command, environment = _KINDS[client.kind](client)
    return Program([*command, bootstrap], environment)


def _python(client: Client) -> tuple[list[str], dict[str, str]]:
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    return [sys.executable, str(client.folder / "adapter.py")], {"PYTHONPATH": path}


def _go(client: Client) -> tuple[list[str], dict[str, str]]:
    files = [SERVING / "serve.go", client.folder / "adapter.go"]
    modules = [GO_MODULES / "go.mod", GO_MODULES / "go.sum"]

    def fill(folder: Path) -> None:
        for file in (*files, *modules):
            shutil.copy(file, folder)
        built(folder, folder / "client", modules=folder)

    name = f"{client.folder.name}-{_stamp(*files, *modules)}"
    return [str(cached_folder(name, fill) / "client")], {}


def _node(client: Client) -> tuple[list[str], dict[str, str]]:
    node = require_program("node", "install Node.js 20 or newer")
    source = client.folder if client.compiles else NODE_PACKAGES
    folder = npm_packages(source, compiles=client.compiles)
    program = folder / f"{client.folder.name}-adapter.js"
    for file, copy in (
        (SERVING / "serve.js", folder / "serve.js"),
        (client.folder / "adapter.js", program),
    ):
        shutil.copy(file, copy)
    return [node, str(program)], {}


def _java(client: Client) -> tuple[list[str], dict[str, str]]:
    sources = [SERVING / "Serve.java", client.folder / f"{client.program}.java"]

    def fill(folder: Path) -> None:
        compile_java(sources, java_jars(client.compiled_for), folder, release=8)

    classes = cached_folder(f"java-{client.program}-{client.compiled_for}-{_stamp(*sources)}", fill)
    return java_command(classes, client.version, client.program), {}


def _stamp(*files: Path) -> str:
    content = b"".join(file.read_bytes() for file in files)
    return hashlib.sha256(content).hexdigest()[:12]


_KINDS: dict[str, Callable[[Client], tuple[list[str], dict[str, str]]]] = {
    "go": _go,
    "java": _java,
    "node": _node,
    "python": _python,
}
