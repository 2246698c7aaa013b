"""TLS before a broker that speaks none, as by a proxy: a client shows a certificate, or stays out.

with TlsDoor(certificate) as door:
    broker = BrokerProcess(data, ("--override", f"kbroker.advertise={door.address}"))
    broker.start()
    door.port_behind = broker.port
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_PIECE_BYTES = 65_536


def made_certificate(folder: Path, name: str, alternative: str) -> Path:
    """A certificate that is its own authority; its key is name.key, and both are in name-both.pem.
    Needs openssl.
    """
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName={alternative}", "-keyout", str(key),
         "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / f"{name}-both.pem").write_text(key.read_text() + certificate.read_text())
    return certificate


def file_of_client(file: Path, certificate: Path) -> Path:
    """Properties of a client that trusts this certificate of `made_certificate`, and shows it."""
    file.write_text(
        f"security.protocol=SSL\nssl.ca.location={certificate}\n"
        f"ssl.certificate.location={certificate}\nssl.key.location={certificate.with_suffix('.key')}\n"
    )
    return file


class TlsDoor:
    """Shows a certificate of `made_certificate`, and asks for the same; has a thread of its own."""

    def __init__(self, certificate: Path) -> None:
        self.port_behind = 0
        self.port = 0
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._loop = asyncio.new_event_loop()
        self._is_open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_open.wait(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        opening = asyncio.start_server(self._let_in, "127.0.0.1", 0, ssl=self._context)
        server = self._loop.run_until_complete(opening)
        self.port = server.sockets[0].getsockname()[1]
        self._loop.set_exception_handler(lambda *_: None)  # of clients that are kept out
        self._is_open.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner = await asyncio.open_connection("127.0.0.1", self.port_behind)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass(reader, inner), _pass(inner_reader, writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    writer.close()
