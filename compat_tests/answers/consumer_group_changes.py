"""Raw sequences of groups that change from one protocol to the other and back."""

from __future__ import annotations

from collections.abc import Iterator

from compat_tests.answers.consumer_group_steps import (
    Step,
    beat,
    classic_beat,
    classic_join,
    classic_leave,
    commit,
    delete_group,
    describe,
    describe_classic,
    fetch,
    join,
    listed,
    sync,
)

Sequences = dict[str, tuple[Step, ...]]


def changes(policy: str = "") -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Yield every sequence of changes; the name says by which policy, if it is not the default."""
    end = f" ({policy})" if policy else ""
    for making in (_into_the_other, _classic_members, _there_and_back):
        for name, steps in making().items():
            yield name + end, steps


def _into_the_other() -> Sequences:
    """Members of one protocol who come to a group of the other."""
    stable = (classic_join("c", "t6"), sync("c", given="t6"))
    return {
        "change: a new member to a classic group": (
            *stable, join("a", "t6"), describe(), classic_beat("c"), commit("c"), listed(),
        ),
        "change: to a group that waits for its leader": (
            classic_join("c", "t6"), join("a", "t6"), describe(), sync("c", given="t6"),
        ),
        "change: to a group of another kind": (
            classic_join("c", kind="connect", metadata=b"x"), sync("c"), join("a", "t6"), describe(),
            describe_classic(),
        ),
        "change: to a group whose subscription is unreadable": (
            classic_join("c", metadata=b"\0"), sync("c"), join("a", "t6"), describe(),
        ),
        "change: to a classic group that is empty": (
            *stable, classic_leave("c"), join("a", "t6"), describe(), listed(),
        ),
        "change: to committed offsets": (commit("", -1), join("a", "t6"), fetch(), describe()),
        "change: a classic member to a new group": (
            join("a", "t6"), classic_join("c", "t6"), describe(), sync("c"), beat("a"), describe(),
        ),
        "change: a classic member to a new group that is empty": (
            join("a", "t6"), beat("a", -1), classic_join("c", "t6"), sync("c", given="t6"), describe(),
            describe_classic(), listed(),
        ),
        "change: one of another kind to a new group": (
            join("a", "t6"), classic_join("c", kind="connect", metadata=b"x"), describe(),
        ),
        "change: an unreadable subscription to a new group": (
            join("a", "t6"), classic_join("c", metadata=b"\0"), describe(),
        ),
        "change: a heartbeat that is no join, to a classic group": (*stable, beat("x", 1), beat("x", -1)),
        "change: classic requests to a new group": (
            join("a", "t6"), sync("a"), classic_beat("a"), classic_leave("a"), classic_beat("x", 2),
            classic_leave("x"), sync("x", 1), describe(),
        ),
        "change: old versions of JoinGroup to a new group": (
            join("a", "t6"), *(classic_join("c", "t6", version=version) for version in (2, 5)),
            describe(),
        ),
    }  # fmt: skip


def _classic_members() -> Sequences:
    """Classic members in a group of the new protocol."""
    mixed = (classic_join("c", "t6"), sync("c", given="t6"), join("a", "t6"))
    again = (classic_beat("c"), classic_join("c", "t6"), sync("c"))
    return {
        "mixed: the classic one joins again": (*mixed, *again, beat("a"), classic_beat("c"), describe()),
        "mixed: it does not sync": (*mixed, classic_join("c", "t6"), classic_beat("c"), describe()),
        "mixed: it syncs twice": (*mixed, *again, sync("c"), describe()),
        "mixed: it syncs in a wrong generation": (*mixed, classic_join("c", "t6"), sync("c", "+1"), sync("c", "-1")),
        "mixed: it syncs before it joins": (*mixed, sync("c"), describe()),
        "mixed: it commits": (
            *mixed, commit("c", place="t6:0"), *again, commit("c", place="t6:0"),
            commit("c", "+1", place="t6:0"), commit("c", "-1", place="t6:0"), fetch("c", place="t6:0"),
            commit("c", place="t6:0", version=8),
        ),
        "mixed: heartbeats of wrong generations": (
            *mixed, *again, classic_beat("c", "+1"), classic_beat("c", "-1"), classic_beat("c", instance="i"),
        ),
        "mixed: it subscribes to another topic": (
            *mixed, classic_beat("c"), classic_join("c", "t6"), sync("c"), beat("a"), describe(),
        ),
        "mixed: it changes its kind": (*mixed, classic_join("c", kind="connect", metadata=b"x"), describe()),
        "mixed: it speaks the new protocol": (*mixed, beat("c", owned={}), describe()),
        "mixed: the new one speaks the old protocol": (*mixed, classic_beat("a"), sync("a"), describe()),
        "mixed: it leaves": (*mixed, *again, classic_leave("c"), beat("a"), describe(), listed()),
        "mixed: it is removed, and joins under its id": (
            *mixed, *again, classic_leave("c"), classic_beat("c"), classic_join("c", "t6"), sync("c"),
            describe(),
        ),
        "mixed: it leaves while it should join": (*mixed, classic_leave("c"), beat("a"), describe()),
        "mixed: a second classic one": (
            *mixed, *again, classic_join("d", "t6"), sync("d"), classic_beat("c"), beat("a"), describe(),
        ),
        "mixed: static ones are replaced": (
            classic_join("c", "t6", instance="i"), sync("c", given="t6"), join("a", "t6"),
            join("b", "t6", instance_id="i"), describe(), classic_beat("c", instance="i"),
        ),
        "mixed: a static one by a classic one": (
            join("a", "t6", instance_id="i"), join("b", "t6"), beat("a", -2, instance_id="i"),
            classic_join("c", "t6", instance="i"), sync("c"), describe(),
        ),
        "mixed: another instance leaves": (
            classic_join("c", "t6", instance="i"), sync("c", given="t6"), join("a", "t6"),
            classic_leave("", instance="i"), beat("a"), describe(),
        ),
    }  # fmt: skip


def _there_and_back() -> Sequences:
    """Groups that become classic again."""
    mixed = (classic_join("c", "t6"), sync("c", given="t6"), join("a", "t6"))
    return {
        "back: the last new one leaves": (
            *mixed, beat("a", -1), listed(), describe(), describe_classic(), classic_beat("c"),
            commit("c", place="t6:0"),
        ),
        "back: after the classic one joined": (
            *mixed, classic_beat("c"), classic_join("c", "t6"), sync("c"), beat("a"), beat("a", -1),
            listed(), describe_classic(), classic_beat("c"),
        ),
        "back: and there again": (
            *mixed, beat("a", -1), classic_join("c", "t6"), sync("c", given="t6"), join("b", "t6"),
            describe(), listed(),
        ),
        "back: a static new one is replaced by a classic one": (
            join("a", "t6", instance_id="i"), beat("a", -2, instance_id="i"),
            classic_join("c", "t6", instance="i"), listed(), describe_classic(), sync("c", given="t6"),
        ),
        "back: a classic one waits for partitions": (
            join("a", "t6", instance_id="i"), classic_join("d", "t6"), sync("d"), classic_beat("d"),
            classic_join("c", "t6", instance="i"), listed(), sync("c", given="t6"), classic_beat("d"),
            classic_beat("c", instance="i"),
        ),
        "back: all go": (*mixed, classic_leave("c"), beat("a", -1), listed(), describe(), delete_group()),
    }  # fmt: skip
