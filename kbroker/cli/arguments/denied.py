"""Rights that a command lacked, as brokers said: noted while it runs, and said last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kbroker.client.denials import Denial

_NOTED = "kbroker.denials"
_PURPOSES = {"kbroker produce": "WRITE", "kbroker consume": "READ"}  # which include to describe


def note_denials(bootstrap: str, denials: Iterable[Denial]) -> None:
    """Keep what was refused until the command ends."""
    ctx = click.get_current_context(silent=True)  # none in a thread that asks for a completion
    if ctx is None:
        return
    from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC  # help does without

    own = GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC  # looked at to know whether all is there
    noted: dict[str, None] = ctx.meta.setdefault(_NOTED, {})
    for denial in denials:
        if denial.name in own:
            continue
        noted[_sentence(bootstrap, denial, ctx)] = None


def sentences_about_denials(ctx: click.Context) -> list[str]:
    """Return a sentence for each right that was missing."""
    return list(ctx.meta.get(_NOTED, {}))


def _sentence(bootstrap: str, denial: Denial, ctx: click.Context) -> str:
    from kbroker.client.bootstrap import settings_of
    from kbroker.client.denials import principal_with

    purpose = _PURPOSES.get(ctx.command_path)
    meant = denial if purpose is None else _meant(denial, purpose, ctx.params.get("topic"))
    return meant.sentence(principal_with(settings_of(bootstrap)))


def _meant(denial: Denial, purpose: str, topic: str | None) -> Denial:
    """The right that the command needs in the end, and that includes the one which was missing."""
    from kbroker.acl.acl import AclOperation, AclResourceType

    of_topic = denial.kind is AclResourceType.TOPIC
    if of_topic and denial.operation is AclOperation.DESCRIBE:
        return denial._replace(operation=AclOperation[purpose])
    if denial.operation is AclOperation.IDEMPOTENT_WRITE and topic is not None:
        return denial._replace(
            kind=AclResourceType.TOPIC, operation=AclOperation[purpose], name=topic
        )
    return denial
