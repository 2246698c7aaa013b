"""The raw sequences of consumer groups: each a name and its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compat_tests.answers.consumer_group_changes import (
    changes,
)
from compat_tests.answers.consumer_group_steps import (
    Step,
    beat,
    begin,
    classic_join,
    commit,
    commit_in_txn,
    delete_group,
    delete_offset,
    delete_topic,
    describe,
    describe_classic,
    end,
    fetch,
    grow_topic,
    join,
    listed,
    make_topic,
    moment,
    sync,
)

Sequences = dict[str, tuple[Step, ...]]
_KIB_40 = 40 * 1024
_FIRST: dict[str, Any] = {"rebalance_timeout": 30_000, "owned": {}, "topics": ["t3"]}


def sequences() -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Yield every sequence, each with a name of its own."""
    for making in (
        _first, _going_on, _two, _static, _commits, _fetches, _transactions, _seen, _topics,
    ):  # fmt: skip
        yield from making().items()
    yield from changes()


def _first() -> Sequences:
    """First heartbeats, right and wrong."""
    wrong: dict[str, dict[str, Any]] = {
        "as it should be": {},
        "no rebalance time": {"rebalance_timeout": -1},
        "a rebalance time of 0": {"rebalance_timeout": 0},
        "no subscription": {"topics": None},
        "an empty subscription": {"topics": []},
        "partitions owned": {"owned": {"t3": [0]}},
        "no owned partitions": {"owned": None},
        "an unknown assignor": {"server_assignor": "nope"},
        "an empty assignor": {"server_assignor": ""},
        "range": {"server_assignor": "range"},
        "range by its class": {
            "server_assignor": "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
        },
        "no group": {"group_id": ""},
        "a group of spaces": {"group_id": "  "},
        "a group of 40 KiB": {"group_id": "g" * _KIB_40},
        "a member of spaces": {"member_id": " "},
        "a member of 40 KiB": {"member_id": "m" * _KIB_40},
        "an empty instance": {"instance_id": ""},
        "an instance of spaces": {"instance_id": " "},
        "an instance of 40 KiB": {"instance_id": "i" * _KIB_40},
        "an empty rack": {"rack_id": ""},
        "a rack": {"rack_id": "r1"},
        "a topic twice": {"topics": ["t3", "t3"]},
        "an unknown topic": {"topics": ["none"]},
        "an unknown topic beside another": {"topics": ["none", "t2"]},
        "a topic without a name": {"topics": [""]},
        "a wrong name of a topic": {"topics": ["a/b"]},
        "epoch -3": {"epoch": -3},
        "epoch -1": {"epoch": -1},
        "epoch -2": {"epoch": -2},
        "epoch -2 of an instance": {"epoch": -2, "instance_id": "i"},
        "epoch 1": {"epoch": 1},
        "an empty pattern": {"subscribed_topic_regex": "", "topics": None},
        "a pattern": {"subscribed_topic_regex": "t[23]", "topics": None},
        "a pattern that matches nothing": {"subscribed_topic_regex": "x+", "topics": None},
        "a wrong pattern": {"subscribed_topic_regex": "t(", "topics": None},
        "a pattern with a look-ahead": {"subscribed_topic_regex": "(?=t)t3", "topics": None},
        "a pattern and names": {"subscribed_topic_regex": "t2"},
    }
    found: Sequences = {}
    for name, fields in wrong.items():
        sent: dict[str, Any] = {"epoch": 0, **_FIRST, **fields}
        found[f"first: {name}"] = (
            (beat("a", **sent), moment, describe(), listed())
            if sent.get("subscribed_topic_regex")
            else (beat("a", **sent), describe(), listed())
        )
    for name in ("as it should be", "no rebalance time", "epoch 1", "a wrong pattern"):
        sent = {"epoch": 0, "version": 0, **_FIRST, **wrong[name]}
        sent.pop("subscribed_topic_regex", None)
        found[f"first, version 0: {name}"] = (beat("a", **sent), describe(0))
    found["first, version 0: no member"] = (
        beat("a", 0, version=0, member_id="", **_FIRST), describe(0), beat("a"),
    )  # fmt: skip
    found["first: no member"] = (beat("a", 0, member_id="", **_FIRST), describe())
    return found


def _going_on() -> Sequences:
    """Further heartbeats of one member."""
    here = join("a", "t3")
    later: dict[str, tuple[Step, ...]] = {
        "nothing new": (beat("a"), beat("a")),
        "what it owns": (beat("a", owned={"t3": [0, 1, 2]}), beat("a")),
        "a part of it": (beat("a", owned={"t3": [1]}), beat("a")),
        "more than that": (beat("a", owned={"t3": [0, 1, 2], "t2": [0]}), beat("a")),
        "a partition that is not there": (beat("a", owned={"t3": [0, 1, 2, 3]}), beat("a")),
        "an unknown topic": (beat("a", owned={"none": [0]}), beat("a")),
        "one partition twice": (beat("a", owned={"t3": [0, 0, 1]}), beat("a")),
        "all again": (beat("a", **_FIRST), beat("a", **_FIRST)),
        "all again, with what it owns": (beat("a", **{**_FIRST, "owned": {"t3": [0, 1, 2]}}),),
        "an epoch ahead": (beat("a", "+1"), beat("a", "-1")),
        "an epoch behind": (beat("a", "-1", owned={}), beat("a", 0, owned={}), beat("a", -3)),
        "another topic too": (beat("a", topics=["t2", "t3"]), beat("a"), beat("a")),
        "another topic instead": (
            beat("a", topics=["t2"]), beat("a"), beat("a", owned={}), beat("a"),
        ),
        "no topics": (beat("a", topics=[]), beat("a"), beat("a", owned={})),
        "another assignor": (beat("a", server_assignor="range"), beat("a")),
        "an unknown assignor": (beat("a", server_assignor="nope"), beat("a")),
        "an empty assignor": (beat("a", server_assignor=""), beat("a")),
        "another rebalance time": (beat("a", rebalance_timeout=40_000), beat("a")),
        "a rebalance time of 0": (beat("a", rebalance_timeout=0), beat("a")),
        "a rack": (beat("a", rack_id="r2"), beat("a")),
        "an instance": (beat("a", instance_id="i"), beat("a")),
        "a pattern beside": (beat("a", subscribed_topic_regex="t2"), moment, beat("a")),
        "a pattern instead": (
            beat("a", subscribed_topic_regex="t[26]", topics=[]), moment, beat("a"), beat("a", owned={}),
            beat("a"), beat("a", subscribed_topic_regex="x"), moment, beat("a"), moment,
            beat("a", owned={}),
        ),
        "a pattern, and away with it": (
            beat("a", subscribed_topic_regex="t2"), moment, beat("a"),
            beat("a", subscribed_topic_regex=""), beat("a"), beat("a", owned={"t3": [0, 1, 2]}),
        ),
        "joins again": (join("a", "t3"), beat("a")),
        "joins again, with another topic": (join("a", "t2"), beat("a", owned={}), beat("a")),
        "leaves": (beat("a", -1), beat("a", 2), join("a", "t3")),
        "leaves twice": (beat("a", -1), beat("a", -1)),
        "leaves, and is static suddenly": (beat("a", -2, instance_id="i"),),
        "leaves for a while": (beat("a", -2),),
        "a stranger goes on": (beat("x", 1),),
        "a stranger leaves": (beat("x", -1),),
        "a nobody": (beat("x", 1, member_id=""),),
        "of version 0": (beat("a", version=0), beat("a", version=0, owned={"t3": [0, 1, 2]})),
    }  # fmt: skip
    return {f"later: {name}": (here, *steps, describe(), listed()) for name, steps in later.items()}


def _two() -> Sequences:
    """Two and three members: nothing is given before it is taken back."""
    both = (join("a", "t6"), join("b", "t6"))
    taken = beat("a", owned={"t6": [0, 1, 2]})
    return {
        "two: shared": (*both, beat("a"), beat("b"), taken, beat("b"), beat("a"), describe()),
        "two: the first does not give back": (*both, beat("a"), beat("a"), beat("b"), describe()),
        "two: it gives back too much": (
            *both, beat("a"), beat("a", owned={}), beat("b"), beat("a"), describe(),
        ),
        "two: it gives back another one": (
            *both, beat("a"), beat("a", owned={"t6": [3, 4, 5]}), beat("b"), describe(),
        ),
        "two: it gives back what it was not asked for": (
            *both, beat("a", owned={"t6": [0]}), beat("a", owned={"t6": [0]}), beat("b"), describe(),
        ),
        "two: the first leaves before": (*both, beat("a", -1), beat("b"), beat("b"), describe()),
        "two: the second leaves before": (*both, beat("a"), beat("b", -1), beat("a"), describe()),
        "two: the second leaves after": (
            *both, beat("a"), taken, beat("b"), beat("b", -1), beat("a"), describe(),
        ),
        "two: an answer was lost": (
            *both, beat("a"), taken, beat("a", "-1", owned={"t6": [0, 1, 2]}), beat("a"), describe(),
        ),
        "two: an answer was lost, and more is owned": (
            *both, beat("a"), taken, beat("a", "-1", owned={"t6": [0, 1, 2, 3]}), describe(),
        ),
        "two: an answer was lost, and nothing said of it": (
            *both, beat("a"), taken, beat("a", "-1"), describe(),
        ),
        "two: a copy of what the second has sent before takes the news": (
            *both, beat("a"), taken, join("b", "t6"), beat("b"), beat("b"), describe(),
            beat("b", **{**_FIRST, "topics": ["t6"]}),
        ),
        "two: the first joins again": (*both, join("a", "t6"), beat("b"), beat("a"), describe()),
        "two: with other topics": (
            join("a", "t6"), join("b", "t3"), beat("a"), beat("b"), describe(),
        ),
        "two: with one topic in common": (
            join("a", "t6", "t3"), join("b", "t3", "t2"), beat("a"),
            beat("a", owned={"t6": list(range(6))}), beat("b"), beat("a"), describe(),
        ),
        "two: assignors differ": (
            join("a", "t6", server_assignor="range"), join("b", "t6", server_assignor="uniform"),
            beat("a"), taken, beat("b"), describe(),
        ),
        "two: most want range": (
            join("a", "t6", server_assignor="range"), join("b", "t6", server_assignor="range"),
            join("c", "t6", server_assignor="uniform"), beat("a"), describe(),
        ),
        "two: range over two topics": (
            join("a", "t3", "t2", server_assignor="range"),
            join("b", "t3", "t2", server_assignor="range"), beat("a"),
            beat("a", owned={"t3": [0, 1], "t2": [0]}), beat("b"), beat("a"), describe(),
        ),
        "three: one after the other": (
            *both, join("c", "t6"), beat("a"), beat("a", owned={"t6": [0, 1]}), beat("b"), beat("c"),
            beat("a"), describe(),
        ),
        "three: the middle one goes": (
            *both, beat("a"), taken, beat("b"), join("c", "t6"), beat("b", -1), beat("a"), beat("c"),
            beat("a"), describe(),
        ),
        "three: more than partitions": (
            join("a", "t2"), join("b", "t2"), join("c", "t2"), beat("a"), beat("a", owned={"t2": [0]}),
            beat("b"), beat("c"), describe(),
        ),
    }  # fmt: skip


def _static() -> Sequences:
    """Static members."""
    one = join("a", "t3", instance_id="i")
    back = join("b", "t3", instance_id="i")
    return {
        "static: comes back": (one, beat("a", -2, instance_id="i"), describe(), back, describe()),
        "static: comes back with another subscription": (
            one, beat("a", -2, instance_id="i"), join("b", "t2", instance_id="i"), beat("b"),
            describe(),
        ),
        "static: is still there": (one, back, beat("a", instance_id="i"), describe()),
        "static: the old one goes on": (
            one, beat("a", -2, instance_id="i"), back, beat("a", 2, instance_id="i"), describe(),
        ),
        "static: the old one leaves": (
            one, beat("a", -2, instance_id="i"), back, beat("a", -1, instance_id="i"), describe(),
        ),
        "static: goes for good": (one, beat("a", -1, instance_id="i"), back, describe()),
        "static: goes for good, without its instance": (one, beat("a", -1), describe()),
        "static: goes on without its instance": (one, beat("a"), describe()),
        "static: goes on with another instance": (one, beat("a", instance_id="j"), describe()),
        "static: another member is away in its name": (
            one, beat("x", -2, instance_id="i"), describe(),
        ),
        "static: goes on while away": (
            one, beat("a", -2, instance_id="i"), beat("a", 2, instance_id="i"), describe(),
        ),
        "static: joins again as itself": (one, join("a", "t3", instance_id="i"), describe()),
        "static: joins again as itself while away": (
            one, beat("a", -2, instance_id="i"), join("a", "t3", instance_id="i"), describe(),
        ),
        "static: away twice": (
            one, beat("a", -2, instance_id="i"), beat("a", -2, instance_id="i"), describe(),
        ),
        "static: beside another": (
            one, join("b", "t3", instance_id="j"), beat("a", instance_id="i"),
            beat("a", instance_id="i", owned={"t3": [0, 1]}), beat("b", instance_id="j"),
            beat("b", -2, instance_id="j"), beat("a", instance_id="i"),
            join("c", "t3", instance_id="j"), describe(),
        ),
        "static: of version 0": (
            join("a", "t3", instance_id="i", version=0),
            beat("a", -2, instance_id="i", version=0), join("b", "t3", instance_id="i", version=0),
            describe(0),
        ),
    }  # fmt: skip


def _commits() -> Sequences:
    """OffsetCommit by members and others."""
    here = join("a", "t3")
    found: Sequences = {}
    for version in (2, 5, 7, 8, 9, 10):
        found[f"commit, version {version}"] = (
            commit(version=version), here, commit("a", version=version),
            commit("a", "-1", version=version), commit("a", "+1", version=version),
            commit("a", -1, version=version), commit("x", 1, version=version),
            commit("", -1, version=version), beat("a", -1), commit("a", 2, version=version),
            commit("", -1, version=version), fetch(),
        )  # fmt: skip
    more = (here, beat("a", topics=["t3", "t2"]), beat("a"))
    return found | {
        "commit: in an older epoch": (
            *more, commit("a", "-1"), commit("a", "-1", place="t2:0"), commit("a", place="t2:0"),
            commit("a", "+1"), commit("a", 1), fetch(place=None),
        ),
        "commit: of what it does not have": (here, commit("a", place="t2:0"), fetch(place="t2:0")),
        "commit: of what is not there": (
            here, commit("a", place="t3:7"), commit("a", place="none:0"),
            commit("a", place="none:0", version=10), fetch(place="none:0"),
        ),
        "commit: while it takes back": (
            join("a", "t6"), join("b", "t6"), beat("a"), commit("a", place="t6:5"),
            commit("a", place="t6:0"), beat("a", owned={"t6": [0, 1, 2]}),
            commit("a", "-1", place="t6:5"), commit("a", "-1", place="t6:0"), commit("b", place="t6:5"),
        ),
        "commit: of a static member": (
            join("a", "t3", instance_id="i"), commit("a", instance="i"), commit("a"),
            commit("a", instance="j"), commit("x", 2, instance="i"),
            beat("a", -2, instance_id="i"), commit("a", 2, instance="i"), commit("a", -2, instance="i"),
        ),
        "commit: into nothing": tuple(
            commit(who, epoch, version=version)
            for version in (8, 9, 10) for who, epoch in (("x", 1), ("x", -1), ("", 1))
        ),
        "commit: alone, then a member": (commit("", -1), describe(), listed(), here, describe()),
    }  # fmt: skip


def _fetches() -> Sequences:
    """OffsetFetch by members and others."""
    here = (join("a", "t3"), commit("a"))
    asked = (
        (None, -1), ("a", None), ("a", "-1"), ("a", "+1"), ("a", -1), ("x", 1), ("x", -1), ("", -1),
        ("", 1),
    )  # fmt: skip
    return {
        **{
            f"fetch, version {version}: {who} in epoch {epoch or 'as it is'}": (
                *here, fetch(who, epoch, version=version), fetch(who, epoch, version=version, place=None),
            )
            for version in (9, 10) for who, epoch in asked
        },
        "fetch, version 8": (*here, fetch(version=8), fetch(version=8, place=None)),
        "fetch: of nothing": (fetch(), fetch("x", 1), fetch(version=10), fetch(place=None)),
        "fetch: of an empty group": (*here, beat("a", -1), fetch("a", 2), fetch(), fetch("", -1)),
        "fetch: of unknown places": (*here, fetch("a", place="t3:9"), fetch("a", place="none:0"),
                                     fetch("a", place="none:0", version=10)),
        "fetch: of a static member away": (
            join("a", "t3", instance_id="i"), beat("a", -2, instance_id="i"), fetch("a", 2),
            fetch("a", -2), fetch(),
        ),
    }  # fmt: skip


def _transactions() -> Sequences:
    """Offsets in transactions."""
    here = join("a", "t3")
    found: Sequences = {}
    for who, epoch in (
        ("a", None),
        ("a", "-1"),
        ("a", "+1"),
        ("x", 1),
        ("", -1),
        ("a", -1),
        ("", 1),
    ):
        found[f"in a transaction: {who or 'nobody'} in epoch {epoch or 'as it is'}"] = (
            here, begin(), commit_in_txn(who, epoch), end(), fetch(),
        )  # fmt: skip
    return found | {
        "in a transaction: aborted": (here, begin(), commit_in_txn("a"), end(committed=False), fetch()),
        "in a transaction: of an instance": (
            join("a", "t3", instance_id="i"), begin(), commit_in_txn("a", instance="i"),
            commit_in_txn("a", instance="j"), commit_in_txn("", -1, instance="i"), end(), fetch(),
        ),
        "in a transaction: into nothing": (
            begin(), commit_in_txn("x", 1), commit_in_txn("", -1), end(), fetch(), listed(),
        ),
    }  # fmt: skip


def _seen() -> Sequences:
    """List, describe and delete, as administrators do."""
    here = join("a", "t3")
    filters: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
        ((), ("consumer",)), ((), ("Consumer",)), ((), ("classic",)), ((), ("share",)),
        ((), ("nonsense",)), (("Stable",), ()), (("stable",), ()), (("Empty",), ()),
        (("Reconciling",), ("consumer",)), (("nonsense",), ()),
    )  # fmt: skip
    return {
        "seen: in each version": (
            here, *(listed(version) for version in (0, 3, 4, 5)),
            *(describe_classic(version) for version in (0, 4, 5, 6)), describe(0), describe(1),
        ),
        "seen: an empty one": (
            here, beat("a", -1), listed(), describe(), describe_classic(5), describe_classic(6),
        ),
        "seen: by filters": (here, *(listed(5, states, types) for states, types in filters)),
        "seen: while one gives back": (
            join("a", "t6"), join("b", "t6"), listed(), describe(), beat("a"), listed(), describe(),
        ),
        "seen: nothing": (describe(0), describe(1), describe(1, ""), describe_classic(), listed()),
        "seen: a classic one": (classic_join("c", "t3"), sync("c", given="t3"), describe(), listed(),
                                describe_classic()),
        "deleted: with a member": (here, delete_group(), describe()),
        "deleted: empty": (here, commit("a"), beat("a", -1), delete_group(), describe(), fetch(),
                           delete_group()),
        "deleted: not there": (delete_group(), delete_group("")),
        "deleted, and made again": (here, beat("a", -1), delete_group(), join("b", "t3"), describe()),
        "deleted offsets: of a topic that is read": (here, commit("a"), delete_offset(), fetch()),
        "deleted offsets: of another": (
            here, commit("a", place="t2:0"), delete_offset("t2:0"), fetch(place="t2:0"),
        ),
        "deleted offsets: of nobody": (
            here, commit("a"), beat("a", -1), delete_offset(), fetch(), delete_offset("none:0"),
        ),
        "deleted offsets: of a group that is not there": (delete_offset(),),
    }  # fmt: skip


def _topics() -> Sequences:
    """Topics that come, grow and go."""
    own = "{g}-t"
    return {
        "topics: one comes": (
            join("a", own), describe(), make_topic(own, 2), beat("a"), beat("a"), describe(),
        ),
        "topics: one grows": (
            make_topic(own, 2), join("a", own), grow_topic(own, 4), beat("a"), beat("a"), describe(),
        ),
        "topics: one goes": (
            make_topic(own, 2), join("a", own, "t2"), delete_topic(own), beat("a"), beat("a"),
            describe(),
        ),
        "topics: one goes and comes again": (
            make_topic(own, 2), join("a", own), commit("a", place=f"{own}:0"), delete_topic(own),
            make_topic(own, 3), beat("a"), beat("a", owned={}), fetch("a", place=None), describe(),
        ),
        "topics: one grows while two share": (
            make_topic(own, 2), join("a", own), join("b", own), beat("a"), beat("a", owned={own: [0]}),
            beat("b"), grow_topic(own, 4), beat("a"), beat("b"), describe(),
        ),
    }  # fmt: skip
