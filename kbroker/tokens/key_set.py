"""KeySet: the public keys of a token issuer, as it publishes them (RFC 7517). Pure.

Law: only public keys sign tokens here; a secret that both sides know (`oct`) is left out. A key is
of use for the algorithms of its own kind alone, so that nobody signs with a public key as if it
were such a secret. Keys in tokens, or named by them (`jwk`, `jku`, `x5u`), are never looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from jwt import get_algorithm_by_name

_Kind = tuple[str, str | None]  # the type of a key, and its curve
_RSA: _Kind = ("RSA", None)
# The algorithms that are allowed, with the kind of key that each needs.
_KIND_OF: dict[str, _Kind] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), _RSA),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
ALGORITHMS = tuple(_KIND_OF)
RSA_BITS_MIN = 2_048


class PublicKey(NamedTuple):
    """A key that is published. Without an `algorithm` it signs by all of its kind."""

    kid: str | None
    kind: _Kind
    algorithm: str | None
    key: Any  # of the package cryptography

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Whether the signature is one of this key by this algorithm, which has to fit it."""
        assert self.fits(algorithm), "a key is used as what it is"
        return get_algorithm_by_name(algorithm).verify(signed, self.key, signature)

    def fits(self, algorithm: str) -> bool:
        """Whether the algorithm is one that tokens may be signed by with this key."""
        return _KIND_OF.get(algorithm) == self.kind and self.algorithm in (None, algorithm)


class KeySet:
    """Keys that were published together."""

    def __init__(self, keys: tuple[PublicKey, ...] = ()) -> None:
        self.keys = keys

    @classmethod
    def parse(cls, text: str | bytes) -> KeySet:
        """Read a JWK set. Raises ValueError if none of its keys can be used."""
        try:
            entries = json.loads(text)["keys"]
        except (ValueError, RecursionError, TypeError, KeyError):
            raise ValueError("it is not a set of JSON web keys") from None
        if not isinstance(entries, list):
            raise ValueError("it is not a set of JSON web keys")
        keys = tuple(filter(None, map(_public_key, entries)))
        if not keys:
            raise ValueError(f"it has no public key for {', '.join(ALGORITHMS)}")
        return cls(keys)

    def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """Return the key of that name; without a name, the only one that fits the algorithm."""
        fitting = [key for key in self.keys if key.fits(algorithm)]
        if kid is not None:
            fitting = [key for key in fitting if key.kid == kid]
        return fitting[0] if len(fitting) == 1 else None


def _public_key(entry: object) -> PublicKey | None:
    """Return what an entry holds; None for what signs no tokens, or is too weak."""
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    kid, algorithm = entry.get("kid"), entry.get("alg")
    kind: _Kind = (str(entry.get("kty")), entry.get("crv"))
    of_kind = [name for name, its in _KIND_OF.items() if its == kind]
    if not of_kind or (algorithm is not None and algorithm not in of_kind):
        return None
    if not isinstance(kid, str | None):
        return None
    key = _loaded(of_kind[0], entry)
    if key is None or (kind == _RSA and key.key_size < RSA_BITS_MIN):
        return None
    return PublicKey(kid, kind, algorithm, key)


def _loaded(algorithm: str, entry: Mapping[str, Any]) -> Any:
    public = {name: value for name, value in entry.items() if name not in _PRIVATE}
    try:
        return get_algorithm_by_name(algorithm).from_jwk(public)
    except Exception:  # whatever one odd key raises, the others are of use
        return None


_PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth")
