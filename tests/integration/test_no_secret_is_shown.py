"""Thirty secrets are given to a broker and to commands, in all places where there may be some, and used,
mistyped and changed while everything is logged: none is in a log, an answer, an error, an export or
the arguments of a process.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

PROVIDERS = "org.apache.kafka.common.config.provider."
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
NAMES = (
    "plain-ann", "plain-bo", "plain-own", "scram-own", "wrong-plain", "wrong-scram", "scram-ann",
    "scram-bo", "scram-new", "encoder", "old-encoder", "http-token", "wrong-token", "key-phrase",
    "store-phrase", "trust-phrase", "zk-store", "zk-trust", "pem-key", "token-key", "master-key",
    "bearer-client", "plugin", "listener-plugin", "dynamic-phrase", "dynamic-jaas",
    "refused-phrase", "from-environment", "first-user", "bad-jaas",
)  # fmt: skip
SECRETS = {name: f"Hush-{number:02}-{name}-{number * 7919:05}" for number, name in enumerate(NAMES)}
OF_PLAIN = "listener.name.inside.plain.sasl.jaas.config"
LISTENERS = 2
ENCODED = "SECRET_FROM_ENVIRONMENT"


def jaas(module: str, **options: str) -> str:
    return module + "".join(f' {name}="{text}"' for name, text in options.items()) + ";"


def settings(home: Path) -> dict[str, str]:
    s = SECRETS
    return {
        "listeners": "OPEN://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "OPEN:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "OPEN",
        "log.dirs": str(home / "data"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        OF_PLAIN: jaas(
            PLAIN, username="own", password=s["plain-own"], user_ann=s["plain-ann"],
            user_bo=s["plain-bo"],
        ),
        "listener.name.inside.scram-sha-256.sasl.jaas.config": jaas(
            SCRAM, username="own", password=s["scram-own"]
        ),
        "listener.name.outside.oauthbearer.sasl.jaas.config": jaas(
            BEARER, clientId="me", clientSecret=s["bearer-client"]
        ),
        "password.encoder.secret": s["encoder"],
        "password.encoder.old.secret": s["old-encoder"],
        "kbroker.http.listeners": "127.0.0.1:0",
        "kbroker.http.token": s["http-token"],
        "kbroker.first.user": f"root:{s['first-user']}",
        "ssl.key.password": f"${{file:{home}/secrets.properties:key}}",
        "ssl.keystore.password": s["store-phrase"],
        "ssl.keystore.key": s["pem-key"],
        "ssl.truststore.password": s["trust-phrase"],
        "zookeeper.ssl.keystore.password": s["zk-store"],
        "zookeeper.ssl.truststore.password": s["zk-trust"],
        "delegation.token.secret.key": s["token-key"],
        "delegation.token.master.key": s["master-key"],
        "my.plugin.password": s["plugin"],
        "listener.name.inside.plugin.password": s["listener-plugin"],
        "broker.rack": "r1",
        "config.providers": "file,env",
        "config.providers.file.class": f"{PROVIDERS}FileConfigProvider",
        "config.providers.env.class": f"{PROVIDERS}EnvVarConfigProvider",
        "listener.name.outside.ssl.key.password": f"${{env:{ENCODED}}}",
    }  # fmt: skip


class Run:
    """A broker and commands; `said` has all that they have printed, and how they were started."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said: list[str] = []
        self.environment = {**os.environ, ENCODED: SECRETS["from-environment"], "COLUMNS": "200"}
        (home / "secrets.properties").write_text(f"key={SECRETS['key-phrase']}\n")
        self.properties = home / "server.properties"
        self.write(self.properties, settings(home))

    def write(self, path: Path, values: Mapping[str, str]) -> Path:
        path.write_text("".join(f"{name}={text}\n" for name, text in values.items()))
        return path

    def login(self, mechanism: str, user: str, secret: str) -> str:
        """A properties file of a client."""
        values = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": SECRETS[secret],
        }
        return str(self.write(self.home / f"{user}-{secret}.properties", values))

    def kbroker(self, *arguments: str, stdin: str = "") -> int:
        """Run a command to its end, and return its exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "kbroker.cli", *arguments],
            input=stdin, text=True, capture_output=True, check=False, env=self.environment,
            timeout=60,
        )  # fmt: skip
        self.said += [done.stdout, done.stderr, " ".join(arguments)]
        return done.returncode

    @contextlib.contextmanager
    def broker(self) -> Iterator[list[str]]:
        """Yield the addresses of its two listeners."""
        log = (self.home / "broker.log").open("w+")
        process = subprocess.Popen(
            [sys.executable, "-m", "kbroker.cli", "start", str(self.properties),
             "--log-level", "debug", "--log-format", "text", "--stop-at-eof"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env=self.environment,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            found: list[str] = []
            for line in process.stdout:
                self.said.append(line)
                found += re.findall(r"127\.0\.0\.1:\d+", line)
                if len(found) == LISTENERS:
                    break
            self.said.append(Path(f"/proc/{process.pid}/cmdline").read_text())
            yield found
            process.send_signal(signal.SIGTERM)
            self.said.append(process.stdout.read())
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
            log.seek(0)
            self.said.append(log.read())
            log.close()


def forms_of(secret: str) -> list[bytes]:
    """A secret as it might stand somewhere: plain, in base64 at any place of a group, in hex."""
    plain = secret.encode()
    whole = [base64.b64encode(b"x" * lead + plain)[4:-4] for lead in range(3)]
    return [plain, plain.hex().encode(), *whole]


def test_no_secret_is_shown(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.kbroker("config", "check", str(run.properties)) == 0
    assert run.kbroker("config", "show", str(run.properties), "--all") == 0

    with run.broker() as addresses:
        use(run, *addresses)

    bad = settings(tmp_path) | {
        OF_PLAIN: f"{PLAIN} password {SECRETS['bad-jaas']}",
        "num.io.threads": f"${{env:{ENCODED}}}",
    }
    assert run.kbroker("start", str(run.write(tmp_path / "bad.properties", bad))) == 2
    assert run.kbroker("config", "check", str(tmp_path / "bad.properties")) == 1
    kept = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]

    shown = b"\n".join([*(text.encode() for text in run.said), *kept])
    assert b"DEBUG" in shown
    assert [name for name, text in SECRETS.items() if any(f in shown for f in forms_of(text))] == []


def answer_over_http(address: str, token: str) -> str:
    """Ask an API of the console; return all that it says, also in a refusal."""
    request = urllib.request.Request(
        f"http://{address}/api/brokers/0/settings", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return f"{error.headers}{error.read().decode()}"


def use(run: Run, free: str, inside: str) -> None:
    """Let users come and go, rightly and wrongly, and change what can be changed."""
    for user in ("ann", "bo"):
        add = ("user", "add", user, "--bootstrap", free)
        assert run.kbroker(*add, stdin=SECRETS[f"scram-{user}"]) == 0
    assert (
        run.kbroker("user", "password", "bo", "--bootstrap", free, stdin=SECRETS["scram-new"]) == 0
    )
    for mechanism, user, secret, code in (
        ("PLAIN", "ann", "plain-ann", 0),
        ("PLAIN", "bo", "plain-bo", 0),
        ("PLAIN", "bo", "wrong-plain", 3),
        ("SCRAM-SHA-256", "ann", "scram-ann", 0),
        ("SCRAM-SHA-256", "bo", "scram-new", 0),
        ("SCRAM-SHA-256", "bo", "scram-bo", 3),
        ("SCRAM-SHA-256", "nobody", "wrong-scram", 3),
    ):
        file = run.login(mechanism, user, secret)
        asked = ("topic", "list", "--bootstrap", inside, "--command-config", file)
        assert run.kbroker(*asked) == code, (mechanism, user, run.said[-2])
    for code, name, value in (
        (0, "listener.name.inside.ssl.key.password", SECRETS["dynamic-phrase"]),
        (0, OF_PLAIN, jaas(PLAIN, user_carl=SECRETS["dynamic-jaas"])),
        (1, "ssl.key.password", SECRETS["refused-phrase"]),
    ):
        change = ("config", "alter", "--broker", "0", "--set-from", "-", "--bootstrap", free)
        assert run.kbroker(*change, stdin=f"{name}={value}\n") == code, run.said[-2]
    carl = run.login("PLAIN", "carl", "dynamic-jaas")  # by the settings in force
    assert run.kbroker("topic", "list", "--bootstrap", inside, "--command-config", carl) == 0
    assert run.kbroker("config", "describe", "--broker", "0", "--all", "--bootstrap", free) == 0
    (http,) = re.findall(r"kbroker\.http\.listeners +(\S+)", run.said[-3])
    for token in ("http-token", "wrong-token"):
        run.said.append(answer_over_http(http, SECRETS[token]))
    assert run.kbroker("user", "list", "--bootstrap", free) == 0
