"""ZkFeatures: the node with the cluster's levels of features (KIP-584).

Only the controller writes it. Version 1 held a lowest level beside the highest one; its readers are
gone, and version 2 is written. Law: the version of the node is the epoch of the features: it rises
with each change, so a broker can tell old news from new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.zk.tree import SetOp, Stat, Watch
from kbroker.zk.zk_paths import FEATURE
from kbroker.zk.zk_utils import ZkUtils
from kbroker.zk.znode_json import ZnodeFormatError, decode_json, encode_json, int32

FIRST_VERSION, VERSION = 1, 2
DISABLED, ENABLED = 0, 1
MAX_LEVEL = 0x7FFF  # levels are int16 on the wire


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureZnode:
    """The content of /feature. While it is disabled, its features do not count."""

    levels: Mapping[str, int]
    is_enabled: bool = True
    version: int = VERSION
    epoch: int = 0  # version of the node


class ZkFeatures:
    """The node /feature. Used on the event loop only."""

    def __init__(self, zk: ZkUtils) -> None:
        self._zk = zk

    async def read(self, watch: Watch | None = None) -> FeatureZnode | None:
        """The node, None if there is none.

        Raises ZnodeFormatError. The watch fires when the node comes, goes or changes.
        """
        node = await self._zk.look(FEATURE, watch)
        return None if node is None else decode_features(node[0], node[1].version)

    async def create(self, levels: Mapping[str, int]) -> None:
        """Create the node of a new cluster, which begins with these levels."""
        await self._zk.create_if_absent(FEATURE, encode_features(levels))

    async def write(self, levels: Mapping[str, int], epoch: int, epoch_version: int) -> int:
        """Replace the features of `epoch`; returns the new epoch.

        Raises ControllerMovedError, BadVersionError and NoNodeError.
        """
        write = SetOp(FEATURE, encode_features(levels), epoch)
        (stat,) = await self._zk.fenced((write,), epoch_version)
        assert isinstance(stat, Stat)
        return stat.version


def encode_features(levels: Mapping[str, int]) -> bytes:
    """Data of /feature: enabled, with these levels."""
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    return encode_json({"features": features, "version": VERSION, "status": ENABLED})


def decode_features(data: bytes | None, epoch: int) -> FeatureZnode:
    """The data of /feature, versions 1 and 2; `epoch` is the version of the node.

    Raises ZnodeFormatError.
    """
    document = decode_json(FEATURE, data)
    try:
        version, status = int32(document["version"]), int32(document["status"])
        if not FIRST_VERSION <= version <= VERSION or status not in (DISABLED, ENABLED):
            raise ValueError(f"version {version}, status {status}")
        levels = {name: _level(version, row) for name, row in document["features"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZnodeFormatError(f"{FEATURE}: {error!r}") from error
    return FeatureZnode(levels=levels, is_enabled=status == ENABLED, version=version, epoch=epoch)


def _level(version: int, row: Mapping[str, object]) -> int:
    highest = int32(row["max_version_level"])
    lowest = int32(row["min_version_level"]) if version == FIRST_VERSION else 1
    if not 1 <= lowest <= highest <= MAX_LEVEL:
        raise ValueError(f"levels {lowest} to {highest}")
    return highest
