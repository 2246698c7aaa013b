"""An authority for tests, and the certificates that it signs, made by the `openssl` command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

OWN_NAMES = ("DNS:localhost", "IP:127.0.0.1", "IP:::1")
_KINDS = {
    "ec": ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    "rsa": ("rsa:2048",),
}


class Issued(NamedTuple):
    """A certificate and its key, as files; `pem` has both."""

    pem: Path
    certificate: Path
    key: Path

    def settings(self, prefix: str = "") -> dict[str, str]:
        """The settings of a listener that shows it; `prefix` is like `listener.name.ssl.`."""
        return {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.location": str(self.pem),
        }


class Authority:
    """Signs certificates; all files are in one folder. Without openssl the test is skipped."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            pytest.skip("no openssl makes certificates")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        self._run(
            "req", "-x509", "-nodes", "-days", "3650", "-subj", f"/CN={name}",
            "-newkey", *_KINDS["ec"], "-keyout", self._key, "-out", self.certificate,
        )  # fmt: skip

    def trust(self, prefix: str = "") -> dict[str, str]:
        """The settings of a listener that trusts whom it has signed."""
        return {
            f"{prefix}ssl.truststore.type": "PEM",
            f"{prefix}ssl.truststore.location": str(self.certificate),
        }

    def issue(
        self,
        name: str,
        *,
        subject: str = "",
        names: tuple[str, ...] = OWN_NAMES,
        days: int = 30,
        password: str = "",
        kind: str = "ec",
    ) -> Issued:
        """Sign a certificate for `names`, which expired yesterday if `days` is -1. `subject` is
        `/CN=<name>` if empty; a `password` encrypts the key.
        """
        issued = Issued(*(self._folder / f"{name}{end}" for end in (".pem", ".crt", ".key")))
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        protection = ("-passout", f"pass:{password}") if password else ("-nodes",)
        self._run(
            "req", *protection, "-subj", subject or f"/CN={name}", "-newkey", *_KINDS[kind],
            "-keyout", issued.key, "-out", request,
        )  # fmt: skip
        extensions.write_text(f"subjectAltName={','.join(names)}\n" if names else "\n")
        self._run(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
            "-days", str(days), "-extfile", extensions, "-out", issued.certificate,
        )  # fmt: skip
        issued.pem.write_text(issued.key.read_text() + issued.certificate.read_text())
        return issued

    @staticmethod
    def _run(*arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
