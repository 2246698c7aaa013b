"""The topics of patterns that a member of a consumer group may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import chain, repeat

from kbroker.acl.acl import AclOperation, AclResourceType
from kbroker.apis.authorizer import ALLOW_ALL, Purpose
from kbroker.apis.context import RequestContext
from kbroker.slices import slices
from kbroker.turns import ENTRIES, turn

Found = Mapping[str, frozenset[str]]  # topics, by pattern


def visible_topics(ctx: RequestContext) -> Callable[[Found], Awaitable[Found]] | None:
    """Return what takes out the topics that the client may not describe; None if it may see all."""
    return None if ctx.services.authorizer is ALLOW_ALL else partial(_visible, ctx)


async def _visible(ctx: RequestContext, found: Found) -> Found:
    references = Counter(chain.from_iterable(found.values()))
    hidden: set[str] = set()
    for some in slices(references, ENTRIES):
        await turn()
        names = chain.from_iterable(repeat(name, references[name]) for name in some)
        hidden |= ctx.refused(
            AclOperation.DESCRIBE, AclResourceType.TOPIC, names, Purpose.TO_CHOOSE
        )
    return {pattern: topics - hidden for pattern, topics in found.items()}
