"""All tests that deal with secrets, run while everything that kbroker shows is noted: lines of its logs
at every level, output, answers, arguments of processes, and the files that it leaves. None of the
secrets that the tests have given may be there.

    python -m compat_tests.faults.secret_net
    python -m compat_tests.faults.secret_net tests/integration/test_logins.py

What the tests give is found where they give it: in their sources, properties and JAAS files, keys,
arguments and what they type. The folder of a run in which something was found is left.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from compat_tests.running import overheard
from tests.integration.test_no_secret_is_shown import SECRETS, forms_of

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/integration/test_no_secret_is_shown.py", "tests/integration/test_logins.py",
    "tests/integration/test_tls_listeners.py", "tests/integration/test_token_logins.py",
    "tests/integration/test_first_users.py", "tests/integration/test_login_renewal.py",
    "tests/integration/test_secure_ensemble.py", "tests/integration/test_half_configurations.py",
    "tests/integration/test_http_of_a_broker.py", "tests/docs/test_security.py",
    "tests/docs/test_tokens_page.py", "tests/unit/sasl", "tests/unit/tls", "tests/unit/tokens",
    "tests/unit/config", "tests/unit/client", "tests/unit/admin", "tests/unit/certificates",
    "tests/unit/server/start", "tests/unit/cli/arguments", "tests/unit/http",
    "compat_tests/clients/test_logins.py", "compat_tests/clients/test_secure_start.py",
    "compat_tests/clients/test_token_logins.py", "compat_tests/cluster/test_secure_zookeeper.py",
    "compat_tests/cluster/test_cluster_users.py", "compat_tests/faults/test_secured_cluster.py",
    "compat_tests/faults/test_certificates.py",
)  # fmt: skip
SHORTEST = 6  # less is found in anything, as are words
# Where tests put what they give, and what other programs write.
GIVEN = {".properties", ".pem", ".key", ".jaas", ".conf", ".cfg", ".toml", ".txt", ".env", ".go"}
_GIVEN_NAME = re.compile("password|secret|token")
_GIVEN_TEXT = re.compile(rb"^(security\.protocol|ssl\.keystore\.key)=|^\x7fELF", re.MULTILINE)
_SOURCE_LINE = re.compile(rb'File "[^"]+", line \d+, in .*\n.*')  # of tests, among stacks
_NAMED = r"(?:password|secret|token|phrase|user_\w+)"
_QUOTED = re.compile(rf'{_NAMED}\s*[=:]\s*\\?"((?:[^"\\]|\\.)+)\\?"', re.IGNORECASE)
_PROPERTY = re.compile(rf"^[\w.-]*{_NAMED}=([^\s\"'$]+)\s*$", re.IGNORECASE | re.MULTILINE)
_PAIR = re.compile(r"(?:first\.user|zookeeper\.digest)=\w+:(\S+)")
_TYPED = re.compile(r"^typed: (\S+)$", re.MULTILINE)
_KEY = re.compile(r"PRIVATE KEY-----\s+\S+\s+(\S{40,})")
_ANSWERS = "heard/answers"
_TOKEN_BEGIN = b"eyJ"
_TOKEN = re.compile(rb"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")


def run_tests(folder: Path, tests: list[str]) -> None:
    """Run them, with all that they leave in the folder."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--timeout=600",
         "--tb=short", "--basetemp", str(folder / "left"), "-o", "tmp_path_retention_policy=all",
         *tests],
        cwd=ROOT, env=noting(folder, os.environ), check=False,
    )  # fmt: skip


def noting(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which processes of Python note in the folder what they show."""
    (folder / "heard").mkdir()
    home = str(Path(overheard.__file__).parent)
    return {**environment, "PYTHONPATH": home, "OVERHEARD": str(folder / "heard")}


def files(folder: Path) -> Iterator[Path]:
    """All of them, without what leads elsewhere."""
    yield from (
        path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()
    )


def is_given(path: Path) -> bool:
    """Whether tests have put there what they give."""
    if path.parent.name == "heard":
        return path.name.startswith("given-")
    if path.suffix in GIVEN or _GIVEN_NAME.search(path.name):
        return True
    with path.open("rb") as file:
        return _GIVEN_TEXT.search(file.read(4096)) is not None


def given_secrets(folder: Path, tests: Iterable[str] = ()) -> dict[str, str]:
    """Find all secrets that the tests have given, each with the place where it was found first."""
    found = dict.fromkeys(SECRETS.values(), "test_no_secret_is_shown.py")
    sources = chain.from_iterable(
        path.rglob("*.py") if path.is_dir() else [path] for path in (ROOT / name for name in tests)
    )
    for path in (*sources, *filter(is_given, files(folder))):
        if path.stat().st_size > 1 << 20:
            continue
        text = path.read_bytes().decode(errors="replace")
        for pattern in (_QUOTED, _PROPERTY, _PAIR, _TYPED, _KEY):
            for secret in pattern.findall(text):
                found.setdefault(re.sub(r"\\(.)", r"\1", secret), path.name)
    return {
        secret: where
        for secret, where in found.items()
        if len(secret) >= SHORTEST and not secret.isalpha()
    }


def search(folder: Path, secrets: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each secret in each file of those that kbroker has shown or left."""
    forms = {
        form: secret for secret in secrets for form in forms_of(secret) if len(form) >= SHORTEST
    }
    searched = Counter[str]()
    for path in files(folder):
        if is_given(path):
            continue
        name = str(path.relative_to(folder))
        kind = name.partition("-")[0] if path.parent.name == "heard" else "left"
        searched[kind] += path.stat().st_size
    print(f"{len(secrets)} secrets given, {dict(searched)} bytes searched")
    for path in holding(folder, forms):
        data, name = _SOURCE_LINE.sub(b"", path.read_bytes()), str(path.relative_to(folder))
        for form, secret in forms.items():
            place = data.find(form)
            if place >= 0:
                around = data[max(place - 60, 0) : place + len(form) + 20]
                yield f"{secret!r} ({secrets[secret]}) in {name}: {around!r}"
        token = _TOKEN.search(data)
        if token is not None and not name.startswith(_ANSWERS):  # tests play issuers
            yield f"a token in {name}: {token[0][:60]!r}"


def holding(folder: Path, forms: Iterable[bytes]) -> Iterator[Path]:
    """Yield the files that have one of these in them, or a token. Needs grep, which looks for
    thousands at once.
    """
    with tempfile.NamedTemporaryFile() as patterns:
        patterns.write(b"\n".join(sorted({_TOKEN_BEGIN, *forms})) + b"\n")
        patterns.flush()
        found = subprocess.run(
            ["grep", "-rlaFZ", "-f", patterns.name, str(folder)], capture_output=True, check=False
        )
    assert not found.stderr, found.stderr
    paths = (Path(os.fsdecode(name)) for name in found.stdout.split(b"\0") if name)
    yield from (path for path in sorted(paths) if not is_given(path))


def main() -> None:
    """Run the tests, and fail if a secret is found."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.faults.secret_net")
    parser.add_argument("tests", nargs="*", default=TESTS)
    parser.add_argument("--folder", type=Path, help="search what a run has left, and run nothing")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="secret-net-"))
    if options.folder is None:
        run_tests(folder, list(options.tests))
    found = list(search(folder, given_secrets(folder, options.tests)))
    print("\n".join(found) or "none was shown")
    if found:
        raise SystemExit(f"see {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
