"""Logins as raw sequences of frames, and what comes of each: `python -m compat_tests.answers.logins`
plays them to kbroker and to Apache Kafka 3.9.2 and 4.3.1, and prints what differs without a reason;
`--record` writes down what Apache Kafka answers.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.answers.logins_different import DIFFERENT, Different
from compat_tests.clients.raw_connection import (
    ClosedError,
    RawConnection,
    SilenceError,
    decode_response,
    encode_request,
)
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka

RECORDED = Path(__file__).with_name("logins.json")
PRODUCE, METADATA, VERSIONS, HANDSHAKE, AUTHENTICATE, ALTER_USERS = 0, 3, 18, 17, 36, 51
SILENT_S = 0.5
LISTENER = "listener.name.sasl_plaintext."
MODULE = "org.apache.kafka.common.security"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{LISTENER}plain.sasl.jaas.config": (
        f'{MODULE}.plain.PlainLoginModule required user_ann="ann-secret" user_bob="bob-secret";'
    ),
    f"{LISTENER}scram-sha-256.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    f"{LISTENER}scram-sha-512.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    # Sessions that end, so that a login again is one.
    f"{LISTENER}plain.connections.max.reauth.ms": "3600000",
    "connection.failed.authentication.delay.ms": "0",
}
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT, ITERATIONS = b"0123456789", 4_096
NONCE = "ournonce"


class Player:
    """One connection, and the login by SCRAM that it is in."""

    def __init__(self, port: int) -> None:
        self.connection = RawConnection(f"127.0.0.1:{port}", timeout_s=5)
        self.mechanism = ""
        self.first = self.challenge = ""

    def ask(self, key: int, version: int, show: Callable[[Any], str], **values: Any) -> str:
        """Send a request; returns what its answer shows."""
        return self.send(encode_request(key, version, 7, **values), key, version, show)

    def send(self, frame: bytes, key: int, version: int, show: Callable[[Any], str]) -> str:
        """Send the frame of a request; returns what its answer shows."""
        return self.come(frame, lambda answer: show(decode_response(key, version, 7, answer)))

    def come(self, frame: bytes, show: Callable[[bytes], str]) -> str:
        """Send a frame; returns what the frame shows that comes."""
        return self.comes_of(struct.pack(">i", len(frame)) + frame, show)

    def comes_of(self, data: bytes, show: Callable[[bytes], str], patience_s: float = 5) -> str:
        """Send bytes; returns what the frame shows that comes."""
        try:
            self.connection.send_bytes(data)
            return show(self.connection.receive_frame(patience_s))
        except ClosedError:
            return "closed"
        except SilenceError:
            return "silence"


Step = Callable[[Player], str]


def versions(version: int = 3, name: str = "x") -> Step:
    """ApiVersions; one that is not served is answered in version 0."""
    if version > 4:
        frame = struct.pack(">hhih", VERSIONS, version, 7, -1) + b"\0"
        return lambda player: player.send(frame, VERSIONS, 0, _code)
    named = {"client_software_name": name, "client_software_version": "1"} if version >= 3 else {}
    return lambda player: player.ask(VERSIONS, version, _code, **named)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Step:
    """SaslHandshake."""

    def step(player: Player) -> str:
        player.mechanism = mechanism
        return player.ask(
            HANDSHAKE,
            version,
            lambda answer: f"{_code(answer)} {','.join(sorted(answer.mechanisms))}",
            mechanism=mechanism,
        )

    return step


def token(content: bytes, version: int = 2) -> Step:
    """SaslAuthenticate, or a frame of the token alone: version -1."""
    return lambda player: _token(player, content, version, repr)


def _token(player: Player, content: bytes, version: int, show: Callable[[bytes], str]) -> str:
    if version < 0:
        return player.come(content, show)

    def shown(answer: Any) -> str:
        lifetime = getattr(answer, "session_lifetime", None)
        if answer.error_code:
            return f"{_code(answer)} {answer.error_message}, {answer.auth_bytes!r}, {lifetime}"
        return f"0 {show(answer.auth_bytes)}, {lifetime}"

    return player.ask(AUTHENTICATE, version, shown, auth_bytes=content)


def plain(user: str = "ann", password: str = "ann-secret", authzid: str = "") -> bytes:
    """The one message of PLAIN."""
    return f"{authzid}\0{user}\0{password}".encode()


def scram_first(user: str = "ann", version: int = 2, **parts: str) -> Step:
    """The first message of SCRAM; `header`, `nonce`, `extensions` or `whole` in place of the usual."""

    def step(player: Player) -> str:
        bare = f"n={user},r={parts.get('nonce', NONCE)}{parts.get('extensions', '')}"
        player.first = bare
        message = parts.get("whole", parts.get("header", "n,,") + bare).encode()

        def show(answer: bytes) -> str:
            player.challenge = answer.decode()
            fields = _fields(player.challenge)
            begins = fields["r"].startswith(NONCE) and len(fields["r"]) > len(NONCE) + 10
            # Users who do not exist are asked like users of one tool or another.
            iterations = {"8192": "4096"}.get(fields["i"], fields["i"])
            return f"nonce {begins}, salt {len(fields['s']) > 8}, i={iterations}"

        return _token(player, message, version, show)

    return step


def scram_last(password: str = "pencil", version: int = 2, **parts: str) -> Step:
    """The last message of SCRAM; `binding`, `nonce`, `extensions`, `proof` in place of the usual,
    `before` and `after` around the nonce.
    """

    def step(player: Player) -> str:
        fields = _fields(player.challenge)
        if not fields:
            return "no challenge"
        nonce = parts.get("nonce", fields["r"])
        nonce = f"{parts.get('before', '')}{nonce}{parts.get('after', '')}"
        bare = f"c={parts.get('binding', 'biws')},r={nonce}{parts.get('extensions', '')}"
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        hashed = HASHES[player.mechanism]
        salted = hashlib.pbkdf2_hmac(hashed, password.encode(), salt, rounds)
        message = f"{player.first},{player.challenge},{bare}".encode()
        client_key = hmac.digest(salted, b"Client Key", hashed)
        signature = hmac.digest(hashlib.new(hashed, client_key).digest(), message, hashed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        right = hmac.digest(hmac.digest(salted, b"Server Key", hashed), message, hashed)
        text = f"{bare},p={parts.get('proof', base64.b64encode(proof).decode())}"

        def show(answer: bytes) -> str:
            is_right = answer.decode() == f"v={base64.b64encode(right).decode()}"
            return "signature right" if is_right else repr(answer)

        return _token(player, text.encode(), version, show)

    return step


def metadata(version: int = 8) -> Step:
    """Metadata of a topic that is not there."""
    return lambda player: player.ask(
        METADATA,
        version,
        lambda answer: (
            f"{len(answer.brokers)} brokers, {[int(t.error_code) for t in answer.topics]}"
        ),
        topics=[{"name": "no.such"}],
        allow_auto_topic_creation=False,
    )


def produce(acks: int) -> Step:
    """Produce of no records to a topic that is not there."""

    def step(player: Player) -> str:
        player.connection.socket.settimeout(5)
        partition = {"index": 0, "records": None}
        frame = encode_request(
            PRODUCE, 3, 7, transactional_id=None, acks=acks, timeout=1,
            topic_data=[{"name": "no.such", "partition_data": [partition]}],
        )  # fmt: skip
        return player.comes_of(
            struct.pack(">i", len(frame)) + frame, lambda answer: "answered", SILENT_S
        )

    return step


def raw(data: bytes, patience_s: float = SILENT_S) -> Step:
    """Bytes as they are."""
    return lambda player: player.comes_of(data, lambda frame: f"{len(frame)} bytes", patience_s)


def cut(key: int, version: int, by: int, **values: Any) -> Step:
    """A request whose last bytes are missing from its frame."""

    def step(player: Player) -> str:
        frame = encode_request(key, version, 7, **values)[:-by]
        return player.come(frame, lambda answer: f"{len(answer)} bytes")

    return step


class Sequence(NamedTuple):
    """Frames of one connection."""

    name: str
    steps: tuple[Step, ...]


def sequences() -> Iterator[Sequence]:
    """Yield every sequence, each with a name of its own."""
    yield from _before_a_handshake()
    yield from _handshakes()
    yield from _plain()
    yield from _scram()
    yield from _again()


_STRAY: dict[str, Step] = {
    "metadata": metadata(),
    "produce": produce(-1),
    "produce acks 0": produce(0),
    "token": token(plain()),
    "bare token": token(plain(), -1),
    "empty frame": raw(struct.pack(">i", 0)),
    "two bytes": raw(struct.pack(">ih", 2, 17)),
    "negative size": raw(struct.pack(">i", -1)),
    "unknown key": raw(struct.pack(">ihhih", 10, 999, 0, 7, -1)),
    "negative key": raw(struct.pack(">ihhih", 10, -1, 0, 7, -1)),
    "negative version": raw(struct.pack(">ihhih", 10, 17, -1, 7, -1)),
    "handshake 2": raw(struct.pack(">ihhih", 10, 17, 2, 7, -1)),
    "authenticate 3": raw(struct.pack(">ihhih", 10, 36, 3, 7, -1)),
    "http": raw(b"GET / HTTP/1.1\r\n\r\n"),
    "tls": raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "gssapi": raw(struct.pack(">i", 4) + b"\x60\x82\x01\x02"),
    "size above 512 KiB": raw(struct.pack(">i", 524_289)),
    "size of 100 KiB": raw(struct.pack(">i", 100_000)),
    "half a size": raw(b"\0\0"),
}


def _before_a_handshake() -> Iterator[Sequence]:
    for name, step in _STRAY.items():
        yield Sequence(f"first {name}", (step, metadata()))
        yield Sequence(f"versions, {name}", (versions(), step, handshake()))
    for version in range(5):
        yield Sequence(f"versions {version}", (versions(version), handshake(), token(plain())))
    yield Sequence("versions 99", (versions(99), versions(3), handshake(), token(plain())))
    yield Sequence("versions twice", (versions(), versions(), handshake()))
    yield Sequence("versions 99 twice", (versions(99), versions(99), handshake()))
    yield Sequence("versions of no name", (versions(name=""), handshake(), token(plain())))
    yield Sequence("versions of an odd name, twice", (versions(name="-"), versions(), handshake()))
    yield Sequence("versions cut", (cut(VERSIONS, 3, 2, client_software_name="abc"), versions()))


def _handshakes() -> Iterator[Sequence]:
    for mechanism in ("GSSAPI", "OAUTHBEARER", "plain", "", "PLAIN ", "SCRAM-SHA-1", "X" * 300):
        for version in (0, 1):
            yield Sequence(
                f"handshake {version} {mechanism[:12]!r}",
                (handshake(mechanism, version), handshake(), metadata()),
            )
    for name, step in _STRAY.items():
        yield Sequence(f"handshake, {name}", (handshake(), step, token(plain())))
    yield Sequence("handshake twice", (handshake(), handshake(), token(plain())))
    yield Sequence("handshake, versions", (handshake(), versions(), token(plain())))
    yield Sequence("handshake, versions 99", (handshake(), versions(99), token(plain())))
    yield Sequence("handshake cut", (cut(HANDSHAKE, 1, 2, mechanism="PLAIN"), handshake()))
    for version in (0, 1, 2):
        yield Sequence(
            f"authenticate {version} cut",
            (handshake(), cut(AUTHENTICATE, version, 4, auth_bytes=plain()), metadata()),
        )
    for name, step in _STRAY.items():
        if name not in ("half a size", "size of 100 KiB"):
            yield Sequence(f"handshake 0, {name}", (handshake(version=0), step, metadata()))


def _plain() -> Iterator[Sequence]:
    tokens = {
        "right": plain(),
        "right with authzid": plain(authzid="ann"),
        "other authzid": plain(authzid="bob"),
        "authzid of nobody": plain(authzid="zoe"),
        "wrong password": plain(password="x"),
        "password of another": plain(password="bob-secret"),
        "unknown user": plain("zoe"),
        "no user": plain(""),
        "no password": plain(password=""),
        "user in capitals": plain("ANN"),
        "nothing": b"",
        "one NUL": b"ann\0ann-secret",
        "four parts": plain() + b"\0x",
        "five parts": plain() + b"\0x\0y",
        "ends with NUL": plain() + b"\0",
        "not UTF-8": b"\0ann\xff\0ann-secret",
        "NULs": b"\0\0\0",
        "user of 1,000": plain("a" * 1_000),
    }
    for name, content in tokens.items():
        for version in (0, 2) if name in ("right", "wrong password") else (1,):
            steps = (handshake(), token(content, version), metadata())
            yield Sequence(f"PLAIN {version} {name}", steps)
        if name not in ("right with authzid", "no user", "user of 1,000"):
            steps = (handshake(version=0), token(content, -1), metadata())
            yield Sequence(f"PLAIN bare {name}", steps)


def _scram() -> Iterator[Sequence]:
    for mechanism in HASHES:
        begin = handshake(mechanism)
        for version in (-1, 0, 1, 2):
            first = handshake(mechanism, 0) if version < 0 else begin
            yield Sequence(
                f"{mechanism} right {version}",
                (first, scram_first(version=version), scram_last(version=version), metadata()),
            )
        for version in (-1, 2):
            first = handshake(mechanism, 0) if version < 0 else begin
            for name, last in {
                "wrong": scram_last("x", version),
                "no proof": scram_last(version=version, proof=""),
                "short proof": scram_last(version=version, proof="AAAA"),
            }.items():
                steps = (first, scram_first(version=version), last, metadata())
                yield Sequence(f"{mechanism} {name} {version}", steps)
    begin = handshake("SCRAM-SHA-256")
    for name, first in {
        "unknown user": scram_first("zoe"),
        "user without this mechanism": scram_first("old"),
        "own authzid, other binding": scram_first(header="n,a=ann,"),
        "other authzid": scram_first(header="n,a=bob,"),
        "channel binding p": scram_first(header="p=tls-unique,,"),
        "channel binding y": scram_first(header="y,,"),
        "m=": scram_first(whole=f"n,,m=x,n=ann,r={NONCE}"),
        "m= behind": scram_first(extensions=",m=x"),
        "extension": scram_first(extensions=",x=y"),
        "tokenauth": scram_first(extensions=",tokenauth=true"),
        "no user": scram_first(""),
        "no nonce": scram_first(nonce=""),
        "nothing": scram_first(whole=""),
        "half": scram_first(whole="n,,n=ann"),
        "PLAIN's message": scram_first(whole=plain().decode()),
        "name with =": scram_first("a=b"),
        "name with =2C": scram_first("a=2Cb"),
    }.items():
        yield Sequence(f"SCRAM {name}", (begin, first, scram_last(), metadata()))
    for name, last in {
        "nonce changed": scram_last(nonce="changed"),
        "nonce begins right": scram_last(after="x"),
        "nonce ends right": scram_last(before="x"),
        "nonce of the client alone": scram_last(nonce=NONCE),
        "other binding": scram_last(binding=base64.b64encode(b"y,,").decode()),
        "extension in last": scram_last(extensions=",x=y"),
        "m= in last": scram_last(extensions=",m=x"),
        "first again": scram_first(),
        "empty last": token(b""),
        "not UTF-8 last": token(b"\xff"),
        "metadata amid": metadata(),
        "handshake amid": handshake("SCRAM-SHA-256"),
    }.items():
        yield Sequence(f"SCRAM {name}", (begin, scram_first(), last, metadata()))
    own = scram_last(binding=base64.b64encode(b"n,a=ann,").decode())
    yield Sequence("SCRAM own authzid", (begin, scram_first(header="n,a=ann,"), own, metadata()))
    yield Sequence("SCRAM last only", (begin, token(b"c=biws,r=x,p=AAAA"), metadata()))


def _again() -> Iterator[Sequence]:
    first = (handshake(), token(plain()))
    for name, steps in {
        "same user": (handshake(), token(plain()), metadata()),
        "same user by bare token": (handshake(version=0), token(plain(), -1), metadata()),
        "other user": (handshake(), token(plain("bob", "bob-secret")), metadata()),
        "wrong password": (handshake(), token(plain(password="x")), metadata()),
        "other mechanism": (handshake("SCRAM-SHA-256"), scram_first(), metadata()),
        "unknown mechanism": (handshake("GSSAPI"), metadata()),
        "metadata amid": (handshake(), metadata(), token(plain())),
        "twice at once": (handshake(), token(plain()), handshake(), token(plain())),
        "token without handshake": (token(plain()), metadata()),
        "handshake twice": (handshake(), handshake(), metadata()),
        "versions amid": (handshake(), versions(), metadata()),
    }.items():
        yield Sequence(f"again: {name}", (*first, metadata(), *steps))
    scram = (handshake("SCRAM-SHA-256"), scram_first(), scram_last())
    for name, again in {"handshake": handshake(), "token": token(plain())}.items():
        for version in (0, 1):
            step = again if name == "token" else handshake(version=version)
            yield Sequence(f"no session: {name} {version}", (*scram, step, metadata()))


def _code(answer: Any) -> str:
    return str(int(answer.error_code))


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def play(port: int) -> dict[str, list[str]]:
    """Play all sequences; returns what came of each step, to the end of the connection."""
    found = {}
    for sequence in sequences():
        player = Player(port)
        came: list[str] = []
        for step in sequence.steps:
            came.append(step(player))
            if came[-1] == "closed":
                break
        player.connection.close()
        found[sequence.name] = came
    return found


def make_users(bootstrap: str) -> None:
    """Give two users credentials, one of both mechanisms."""
    connection = RawConnection(bootstrap)
    given = [
        {
            "name": user,
            "mechanism": number,
            "iterations": ITERATIONS,
            "salt": SALT,
            "salted_password": hashlib.pbkdf2_hmac(hashed, b"pencil", SALT, ITERATIONS),
        }
        for user, number, hashed in (
            ("ann", 1, "sha256"), ("ann", 2, "sha512"), ("a,b", 1, "sha256"), ("old", 2, "sha512"),
        )
    ]  # fmt: skip
    for each in given:  # as Kafka 4 takes one of a user at a time
        answer = connection.call(ALTER_USERS, 0, deletions=[], upsertions=[each])
        assert [int(result.error_code) for result in answer.results] == [0]
    connection.close()


@contextmanager
def kbroker() -> Iterator[int]:
    """A kbroker with these users; yields the port for logins."""
    with listening(SETTINGS, "SASL_PLAINTEXT") as broker:
        yield broker.ports["SASL_PLAINTEXT"]


class Listening(NamedTuple):
    """A broker: its ports by security protocol, its process, and what it has logged."""

    ports: dict[str, int]
    pid: int
    log: Callable[[], str]


@contextmanager
def listening(settings: Mapping[str, str], *protocols: str) -> Iterator[Listening]:
    """A kbroker with these users and settings."""
    with tempfile.TemporaryDirectory(prefix="logins-") as root:
        ports = {name: apache_kafka.free_port() for name in ("PLAINTEXT", *protocols)}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        settings = {**settings, "listeners": listeners, "auto.create.topics.enable": "false"}
        options = [part for pair in settings.items() for part in ("--override", "=".join(pair))]
        broker = BrokerProcess(Path(root) / "data", tuple(options), ports["PLAINTEXT"])
        broker.start()
        try:
            make_users(broker.bootstrap)
            assert broker.process is not None
            yield Listening(ports, broker.process.pid, broker.log_text)
        finally:
            broker.stop()


@contextmanager
def apache(version: str) -> Iterator[int]:
    """An Apache Kafka with these users; yields the port for logins."""
    port = apache_kafka.free_port()
    settings = {**SETTINGS, "auto.create.topics.enable": "false"}
    with apache_kafka.broker(version, settings, {"SASL_PLAINTEXT": port}) as (bootstrap, _):
        make_users(bootstrap)
        yield port


def unexplained(
    ours: dict[str, list[str]],
    theirs: dict[str, dict[str, list[str]]],
    different: Mapping[str, Different] = DIFFERENT,
) -> list[str]:
    """Return a line for each sequence whose outcome is neither theirs nor one with a reason in
    `different`, and for each reason that is not needed.
    """
    lines = []
    for name, came in ours.items():
        wanted = [each[name] for each in theirs.values()]
        known = different.get(name)
        if known is not None:
            if came in wanted or came[-len(known.ours) :] != known.ours:
                lines.append(f"{name}: {came}, a reason is given for {known.ours}")
        elif came not in wanted:
            lines.append(f"{name}: {came}\n    not {wanted}")
    return [*lines, *(f"{name}: no such sequence" for name in different.keys() - ours.keys())]


def main() -> None:
    """Play them to all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    record = parser.parse_args().record
    theirs: dict[str, dict[str, list[str]]] = {}
    with ExitStack() as stack:
        for version in (apache_kafka.ZOOKEEPER_LINE, apache_kafka.NEWEST):
            theirs[version] = play(stack.enter_context(apache(version)))
        ours = play(stack.enter_context(kbroker()))
    if record:
        RECORDED.write_text(json.dumps(theirs, indent=0, ensure_ascii=False) + "\n")
    lines = unexplained(ours, theirs)
    print(f"{len(ours)} sequences, {len(lines)} unexplained", *lines, sep="\n")


if __name__ == "__main__":
    main()
