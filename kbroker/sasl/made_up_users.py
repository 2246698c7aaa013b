"""MadeUpUsers: the credentials by which names are asked for a proof that have none. Pure.

Law: they look like those that users of the cluster have, in their salts and iterations, and stay
the same as long as no user with others comes or goes. A name that has a credential of one mechanism
looks alike with the others, as made-up ones do.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kbroker.sasl.scram_keys import (
    ITERATIONS_MIN,
    KAFKAS_SALT_BITS,
    OWN_ITERATIONS,
    OWN_SALT_BYTES,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    is_kafkas_salt,
    kafkas_salt,
)

_OF_KAFKAS_TOOLS = -1
_FORMS_MAX = 64  # each costs a login a microsecond


class _Form(NamedTuple):
    """The look of a credential to those who ask for it."""

    salt_bytes: int  # or _OF_KAFKAS_TOOLS, whose salts are texts
    iterations: int


_Forms = tuple[_Form, ...]  # by mechanism, as these are in SCRAM_MECHANISMS

_INDEXES = {name: index for index, name in enumerate(SCRAM_MECHANISMS)}
_OF_TOOLS = (_Form(_OF_KAFKAS_TOOLS, ITERATIONS_MIN), _Form(OWN_SALT_BYTES, OWN_ITERATIONS))
_WITHOUT_USERS = tuple((form,) * len(SCRAM_MECHANISMS) for form in _OF_TOOLS)


class MadeUpUsers:
    """Makes credentials up, after those of the users that it knows."""

    def __init__(self) -> None:
        self._users: dict[str, _Forms] = {}
        self._counts: Counter[_Forms] = Counter()
        self._drawn_from: tuple[_Forms, ...] = _WITHOUT_USERS
        self._texts = _texts(_WITHOUT_USERS)

    def put(self, name: str, credentials: Mapping[str, ScramCredential]) -> None:
        """Note the credentials that a user has now, by mechanism; none: the user is gone."""
        before, forms = self._users.pop(name, None), _forms(credentials)
        if before is not None:
            self._counts[before] -= 1
        if forms is not None:
            self._users[name] = forms
            self._counts[forms] += 1
        self._counts = +self._counts
        if self._counts.keys() != set(self._drawn_from):
            self._drawn_from = tuple(sorted(self._counts)[:_FORMS_MAX]) or _WITHOUT_USERS
            self._texts = _texts(self._drawn_from)

    def credential(self, key: bytes, mechanism: ScramMechanism, name: str) -> ScramCredential:
        """Make up a credential that no password fits. `key` is secret, the same at all brokers and
        after every start.
        """
        drawn = self._drawn(key, name)  # for all names, so that all take the same time
        form = self._users.get(name, drawn)[_INDEXES[mechanism.sasl_name]]
        made_up = mechanism.mac(key, f"{mechanism.sasl_name}\0{name}".encode())
        if form.salt_bytes == _OF_KAFKAS_TOOLS:
            number = int.from_bytes(made_up, "big") >> (8 * len(made_up) - KAFKAS_SALT_BITS)
            salt = kafkas_salt(number)
        else:
            salt = hashlib.shake_256(made_up).digest(form.salt_bytes)
        # No proof fits these keys, and none would let anybody in: there is no identity.
        return ScramCredential(salt, made_up, made_up, form.iterations)

    def _drawn(self, key: bytes, name: str) -> _Forms:
        """The forms of a name that is nobody's: when some come, names change to these only, and
        when some go, only their names change.
        """
        texts = self._texts
        if len(texts) == 1:
            return self._drawn_from[0]

        def rank(text: str) -> bytes:
            return hmac.digest(key, f"{text}\0{name}".encode(), "sha256")

        return texts[max(texts, key=rank)]


def _texts(drawn_from: tuple[_Forms, ...]) -> dict[str, _Forms]:
    """The forms by what is signed of them."""
    return {str([*map(tuple, forms)]): forms for forms in drawn_from}


def _forms(credentials: Mapping[str, ScramCredential]) -> _Forms | None:
    """The forms of a user; None for one that no mechanism knows."""
    known = {name: _form(each) for name, each in credentials.items() if each.is_strong}
    if not known:
        return None
    other = next(iter(known.values()))
    return tuple(known.get(name, other) for name in SCRAM_MECHANISMS)


def _form(credential: ScramCredential) -> _Form:
    salt = credential.salt
    kind = _OF_KAFKAS_TOOLS if is_kafkas_salt(salt) else len(salt)
    return _Form(kind, credential.iterations)
