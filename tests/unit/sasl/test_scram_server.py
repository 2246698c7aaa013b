"""The server's side of SCRAM: with the examples of the RFCs, with our client, and with what is no
login.
"""

from __future__ import annotations

from functools import partial

import pytest

from kbroker.sasl.exchange import Identity, LoginRefusedError
from kbroker.sasl.made_up_users import MadeUpUsers
from kbroker.sasl.scram_client import ScramClient
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential, encoded
from kbroker.sasl.scram_server import ScramServer, ScramUser
from tests.unit.sasl.scram_examples import EXAMPLES, Example

SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
NAME = "jörg, a=b"
USERS = {
    (NAME, False): ScramUser(
        ScramCredential.of_password(SHA_256, "secret", b"salt", 4096), Identity(NAME)
    ),
    ("token-id", True): ScramUser(
        ScramCredential.of_password(SHA_256, "hmac", b"salt", 4096),
        Identity("owner", is_token=True, expires_at_ms=7),
    ),
    ("weak", False): ScramUser(
        ScramCredential.of_password(SHA_256, "secret", b"salt", 4095), Identity("weak")
    ),
}


def server(key: bytes = b"key") -> ScramServer:
    make_up = partial(MadeUpUsers().credential, key, SHA_256)
    return ScramServer(SHA_256, lambda *asked: USERS.get(asked), "theirs", make_up)


def client(name: str = NAME, password: str = "secret") -> ScramClient:
    return ScramClient(SHA_256, name, password, "ours")


def refusal(scram: ScramServer, token: bytes) -> LoginRefusedError:
    with pytest.raises(LoginRefusedError) as caught:
        scram.receive(token)
    return caught.value


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_the_examples_of_the_rfcs_and_of_kafka(example: Example) -> None:
    user = ScramUser(example.credential, Identity(example.username))
    scram = ScramServer(
        example.mechanism, lambda *_: user, example.server_nonce, lambda _: example.credential
    )

    assert scram.receive(example.client_first) == (example.server_first, None)
    assert scram.receive(example.client_final) == (example.server_final, user.identity)


def test_our_client_logs_in_by_a_name_with_any_sign() -> None:
    ours, theirs = client(), server()

    turn = theirs.receive(ours.final(theirs.receive(ours.first()).token))

    assert turn.identity == Identity(NAME)
    ours.check(turn.token)


def final_message(
    first: str, challenge: bytes, without_proof: str, password: str = "secret"
) -> bytes:
    """Prove, of whatever messages, that a client knows the password."""
    client_key = SHA_256.client_key(SHA_256.salted(password, b"salt", 4096))
    signed = f"{first},{challenge.decode()},{without_proof}".encode()
    signature = SHA_256.mac(SHA_256.hashed(client_key), signed)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without_proof},p={encoded(proof)}".encode()


def test_a_delegation_token_is_looked_up_as_one_and_logs_its_owner_in() -> None:
    theirs = server()
    first = "n=token-id,r=ours,tokenauth=TRUE"
    challenge = theirs.receive(f"n,,{first}".encode()).token
    final = final_message(first, challenge, "c=biws,r=ourstheirs", "hmac")

    assert theirs.receive(final).identity == Identity("owner", True, 7)
    assert challenge_of("token-id") != challenge  # no user has the name


@pytest.mark.parametrize(
    ("nonce", "comes_in"),
    [
        ("ourstheirs", True),
        ("oursourstheirs", True),  # librdkafka before 2.6.1
        ("oursoursourstheirs", False),
        ("theirsourstheirs", False),
        ("ourstheirstheirs", False),
        ("theirs", False),
        ("ours", False),
    ],
)
def test_a_nonce_is_that_of_the_challenge(nonce: str, comes_in: bool) -> None:
    theirs, first = server(), "n=jörg=2C a=3Db,r=ours"
    challenge = theirs.receive(f"n,,{first}".encode()).token
    final = final_message(first, challenge, f"c=biws,r={nonce}")

    if comes_in:
        assert theirs.receive(final).identity is not None
    else:
        assert refusal(theirs, final)


def challenge_of(name: str, key: bytes = b"key") -> bytes:
    return server(key).receive(client(name).first()).token


def test_unknown_users_are_asked_for_a_proof_with_a_salt_that_stays_the_same() -> None:
    assert challenge_of("nobody") == challenge_of("nobody")
    assert len({challenge_of("nobody"), challenge_of("no one"), challenge_of("nobody", b"k")}) == 3
    assert not challenge_of("weak").endswith(b",i=4095")  # as if unknown


@pytest.mark.parametrize("name", ["nobody", "weak", "token-id"])
def test_no_name_gets_the_same_salt_as_a_user_and_as_a_token(name: str) -> None:
    as_token = server().receive(f"n,,n={name},r=ours,tokenauth=true".encode()).token

    assert as_token.split(b",")[1] != challenge_of(name).split(b",")[1]


@pytest.mark.parametrize("name", ["nobody", "weak", NAME])
def test_unknown_users_and_wrong_passwords_are_refused_in_the_same_words(name: str) -> None:
    ours, theirs = client(name, "wrong"), server()

    refused = refusal(theirs, ours.final(theirs.receive(ours.first()).token))

    assert refused.said == ""


def test_an_unknown_user_does_not_get_in_by_what_can_be_known_of_the_salt() -> None:
    for password in ("", "nobody", "secret"):
        ours, theirs = client("nobody", password), server()
        refusal(theirs, ours.final(theirs.receive(ours.first()).token))


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\xff",
        b"n,,n=\xff,r=ours",
        b"n,,m=x,n=name,r=ours",
        b"n,,n=name,r=ours,m=x",
        b"y,,n=name,r=ours",
        b"p=tls-unique,,n=name,r=ours",
        b"n,n=name,r=ours",
        b"n,,r=ours,n=name",
        b"n,,n=,r=ours",
        b"n,,n=name,r=",
        b"n,,n=na=me,r=ours",
        b"n,,n=na=3dme,r=ours",
        b"n,,n=na\0me,r=ours",
        b"n,,n=name,r=ou rs",
        b"n,,n=name,r=ours,",
        b"n,,n=name,r=ours\n",
    ],
)
def test_what_is_no_first_message_is_refused(token: bytes) -> None:
    assert refusal(server(), token).said == ""


def test_to_act_for_another_is_refused_whether_or_not_the_user_exists() -> None:
    for name in ("weak", "nobody"):
        refused = refusal(server(), f"n,a=admin,n={name},r=ours".encode())
        assert "different from username" in refused.said
    assert server().receive(b"n,a=weak,n=weak,r=ours").identity is None


def final_of(change: tuple[bytes, bytes]) -> bytes:
    ours, theirs = client(), server()
    return ours.final(theirs.receive(ours.first()).token).replace(*change)


@pytest.mark.parametrize(
    "change",
    [
        (b"r=ourstheirs", b"r=ours"),
        (b"r=ourstheirs", b"r=theirs"),
        (b"r=ourstheirs", b"r=ourstheirsx"),
        (b"r=ourstheirs", b"r=xourstheirs"),
        (b"c=biws", b"c=eSws"),  # y,,
        (b"c=biws", b"c=b"),
        (b"c=biws,", b""),
        (b"p=", b"p=AAAA"),
        (b"p=", b"q="),
        (b"p=", b"m=x,p="),
        (b"p=", b"x=y\xff,p="),
    ],
)
def test_a_last_message_that_was_changed_is_refused(change: tuple[bytes, bytes]) -> None:
    theirs = server()
    theirs.receive(client().first())

    assert refusal(theirs, final_of(change)).said == ""


@pytest.mark.parametrize(
    "without_proof",
    [
        "c=biws,r=ourstheirs,m=x",
        "c=biws,r=ours",
        "c=biws,r=theirs",
        "c=biws,r=oursxtheirs",
        "c=biws,r=ourstheirsx",
        "c=biws,r=xourstheirs",
        "c=eSws,r=ourstheirs",  # y,,
        "c=bixhPWFubiw=,r=ourstheirs",  # n,a=ann,
    ],
)
def test_what_was_changed_is_refused_of_a_client_that_knows_the_password_too(
    without_proof: str,
) -> None:
    first = "n=jörg=2C a=3Db,r=ours"
    theirs = server()
    challenge = theirs.receive(f"n,,{first}".encode()).token
    good = server()
    good.receive(f"n,,{first}".encode())

    assert good.receive(final_message(first, challenge, "c=biws,r=ourstheirs")).identity
    assert refusal(theirs, final_message(first, challenge, without_proof)).said == ""


def test_a_proof_is_taken_once() -> None:
    ours, theirs = client(), server()
    proof = ours.final(theirs.receive(ours.first()).token)
    theirs.receive(proof)

    refusal(theirs, proof)
