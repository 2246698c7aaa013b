"""Settings of groups and levels of features of a KRaft cluster, as a tree keeps them.

Pure. Law: only what this broker acts on is taken over. A group's setting that it does not know, and
a level that it does not support, stay behind and are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kbroker.config.group_settings import sound_settings
from kbroker.features import HIGHEST_LEVELS
from kbroker.server.adoption.kraft_metadata import ClusterMetadata
from kbroker.zk import zk_paths
from kbroker.zk.nodes.features import encode_features
from kbroker.zk.tree import CreateOp, Op
from kbroker.zk.zk_paths import has_node


def usable_group_settings(
    metadata: ClusterMetadata | None,
) -> tuple[dict[str, dict[str, str]], int]:
    """The settings of groups, by group, and how many of them are left: what is known of no group
    here, cannot be read, or belongs to a group of a name that no node can have.
    """
    groups: dict[str, dict[str, str]] = {}
    lost = 0
    for group_id, own in metadata.group_settings.items() if metadata is not None else ():
        usable = sound_settings(own) if has_node(group_id) else {}
        lost += len(own) - len(usable)
        if usable:
            groups[group_id] = usable
    return groups, lost


def usable_levels(metadata: ClusterMetadata | None) -> tuple[dict[str, int], int]:
    """The levels that go on, and how many features of a tree are above what is supported."""
    levels: dict[str, int] = {}
    above = 0
    for name, level in metadata.feature_levels.items() if metadata is not None else ():
        supported = min(level, HIGHEST_LEVELS.get(name, 0))
        if supported >= 1:
            levels[name] = supported
        above += name in HIGHEST_LEVELS and level > supported
    return levels, above


def group_ops(groups: Mapping[str, Mapping[str, str]]) -> Iterator[Op]:
    """Make the nodes of groups."""
    if groups:
        yield CreateOp(zk_paths.config_root_path(zk_paths.GROUP_CONFIGS))
    for group_id, own in sorted(groups.items()):
        path = zk_paths.config_path(zk_paths.GROUP_CONFIGS, zk_paths.sanitized(group_id))
        yield CreateOp(path, zk_paths.encode_config(dict(own)))


def level_ops(levels: Mapping[str, int]) -> Iterator[Op]:
    """Make the node of the features; without a level the controller makes it."""
    if levels:
        yield CreateOp(zk_paths.FEATURE, encode_features(dict(sorted(levels.items()))))
