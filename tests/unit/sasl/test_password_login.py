"""Names and passwords that do not come by SASL, judged as if they did."""

from __future__ import annotations

import pytest

from kbroker.sasl.exchange import Exchange, Identity, LoginRefusedError
from kbroker.sasl.login import Login
from kbroker.sasl.password_login import identity_of
from kbroker.sasl.plain import PlainServer, check_of
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential
from kbroker.sasl.scram_server import ScramServer, ScramUser

SHA_512 = SCRAM_MECHANISMS["SCRAM-SHA-512"]


def exchange(mechanism: str) -> Exchange:
    if mechanism == "PLAIN":
        return PlainServer(check_of({"ann": "secret"}))
    credential = ScramCredential.of_password(SHA_512, "secret", b"salt", 4096)
    users = {"ann": ScramUser(credential, Identity("ann"))}
    return ScramServer(SHA_512, lambda name, _: users.get(name), "server", lambda _: credential)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_right_password_is_that_of_a_user_and_no_other_is(mechanism: str) -> None:
    def asked(name: str, password: str) -> Identity:
        login = Login(mechanism=mechanism, username=name, password=password)
        return identity_of(login, exchange(mechanism), "client")

    assert asked("ann", "secret") == Identity("ann")
    for name, password in (
        ("ann", "other"), ("zoe", "secret"), ("", "secret"), ("ann", ""), ("a\0b", "secret"),
        ("ann,r=x", "secret"), ("ann", "\ud800"),
    ):  # fmt: skip
        with pytest.raises(LoginRefusedError):
            asked(name, password)
