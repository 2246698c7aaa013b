"""Members of groups: the client's consumers, what they have seen, and who has which partitions."""

from __future__ import annotations

from compat_tests.matrix.stage import Stage


def join(stage: Stage, member: str, group: str, assignor: str = "eager", **facts: str) -> None:
    """Let a consumer of the client join the group, which reads the topic of the same name.

    `assignor` is `consumer` for the new protocol. `facts` are its `instance`, if it is static, and
    the `pattern` of the topics that it reads.
    """
    stage.program.ask(
        "join", member=member, group=group, topic=group, assignor=assignor, **facts
    )  # fmt: skip


def leave(stage: Stage, member: str) -> list[str]:
    """Let it leave; the values that it has seen."""
    return list(stage.program.ask("leave", member=member))


def distinct(stage: Stage, *members: str) -> int:
    """How many different values they have seen."""
    return len({v for member in members for v in stage.program.ask("seen", member=member)})
