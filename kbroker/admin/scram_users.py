"""Changes of users' SCRAM credentials (KIP-554): what of a request can be done, and what is stored
of a user afterwards.

Law: a user's changes are done together or refused together, with the codes and sentences of Kafka
3.9; what cannot be done for one user is done for the others. No error repeats a salt or a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kbroker.sasl.scram_keys import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISM_NUMBERS,
    SCRAM_MECHANISMS,
    ScramCredential,
)
from kbroker.turns import in_turns, turn
from kbroker.zk.nodes.entity_configs import Change
from kbroker.zk.zk_paths import has_node

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


@dataclass(slots=True, repr=False)
class UserChange:
    """The credentials that one user gets and loses, by the name of the mechanism."""

    deleted: set[str] = field(default_factory=set)
    stored: dict[str, str] = field(default_factory=dict)

    def applied(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return all that is stored of the user afterwards.

        Raises KafkaError if a credential to delete is not there.
        """
        if not self.deleted <= before.keys():
            message = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
        kept = {name: text for name, text in before.items() if name not in self.deleted}
        return kept | self.stored


ChangeUser = Callable[[str, Change], Awaitable[None]]
"""(user, change): replaces what is stored of a user."""


async def alter_users(
    change_user: ChangeUser, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
) -> dict[str, KafkaError | None]:
    """Change the credentials of each user by itself, and return the refusals, then None for those
    that were changed.
    """
    wishes = _Wishes(deletions, upsertions)
    await in_turns(wishes.steps())
    done: dict[str, KafkaError | None] = {}
    for user, change in wishes.changes.items():
        await turn()
        try:
            await change_user(user, change.applied)
        except KafkaError as error:
            wishes.refused[user] = error.with_traceback(None)  # or it would hold all of them
        else:
            done[user] = None
    return {**wishes.refused, **done}


def credentials_of(stored: Mapping[str, str]) -> dict[str, int]:
    """The iterations of a user's credentials by the name of their mechanism; one that cannot be
    read is left out, as nobody can log in by it.
    """
    found = {}
    for name, mechanism in SCRAM_MECHANISMS.items():
        with suppress(ValueError):
            found[name] = ScramCredential.parse(mechanism, stored.get(name, "")).iterations
    return found


class _Wishes:
    """The changes that a request asks for: what is `refused` by user, and why, and `changes`, what
    to do for the others; both once `steps` has ended.
    """

    def __init__(self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]) -> None:
        self._deletions, self._upsertions = deletions, upsertions
        self.refused: dict[str, KafkaError] = {}
        self.changes: dict[str, UserChange] = {}

    def steps(self) -> Iterator[None]:
        """Work the request out, an entry at each step: it may have a million of them."""
        counts: Counter[tuple[str, int]] = Counter()
        entries: Iterator[Deletion | Upsertion] = chain(self._deletions, self._upsertions)
        for entry in entries:
            refusal = _refusal(entry)
            if refusal is not None:
                self.refused[entry.name] = refusal  # of several, the last one: as in Kafka
            counts[entry.name, entry.mechanism] += 1
            yield
        for (user, _), count in counts.items():
            if count > 1 and user not in self.refused:
                message = "A user credential cannot be altered twice in the same request"
                self.refused[user] = KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
            yield
        for user, _ in counts:
            if user not in self.refused:
                self.changes.setdefault(user, UserChange())
            yield
        yield from self._deleted()
        yield from self._stored()

    def _deleted(self) -> Iterator[None]:
        for deletion in self._deletions:
            if deletion.name in self.changes:
                name = MECHANISM_NUMBERS[deletion.mechanism].sasl_name
                self.changes[deletion.name].deleted.add(name)
            yield

    def _stored(self) -> Iterator[None]:
        for upsertion in self._upsertions:
            if upsertion.name in self.changes:
                name = MECHANISM_NUMBERS[upsertion.mechanism].sasl_name
                self.changes[upsertion.name].stored[name] = _credential(upsertion)
            yield


def _refusal(entry: Deletion | Upsertion) -> KafkaError | None:
    if not entry.name:
        return _unacceptable("Username must not be empty")
    if not has_node(entry.name):
        return _unacceptable(f"Username must not be {entry.name}")
    if entry.mechanism not in MECHANISM_NUMBERS:
        return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(entry, Deletion):
        return None
    if entry.iterations < ITERATIONS_MIN:
        return _unacceptable("Too few iterations")
    if entry.iterations > ITERATIONS_MAX:
        return _unacceptable("Too many iterations")
    if not entry.salted_password:
        return _unacceptable("Salted password must not be empty")
    return None


def _unacceptable(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)


def _credential(upsertion: Upsertion) -> str:
    return str(
        ScramCredential.of_salted(
            MECHANISM_NUMBERS[upsertion.mechanism],
            upsertion.salted_password,
            upsertion.salt,
            upsertion.iterations,
        )
    )
