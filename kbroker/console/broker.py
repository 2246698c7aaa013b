"""One broker: its settings with their origins, and its disks; changes of its settings."""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import Resource, Setting, describe_configs
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exit_code import ExitCode
from kbroker.client.setting_changes import SettingChanges, changed
from kbroker.config.config_resources import ResourceType
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.done import Done
from kbroker.console.gaps import Gaps
from kbroker.console.topic_lookup import NotFoundError
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.wording import named


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRow:
    """A data directory; `total_bytes` and `usable_bytes` are None if the broker is too old to say
    them, and `trouble` says why the directory cannot be used.
    """

    path: str
    partitions: int
    size_bytes: int
    total_bytes: int | None
    usable_bytes: int | None
    trouble: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDetails:
    """A broker; what is None is not known."""

    broker_id: int
    settings: tuple[Setting, ...] | None
    disks: tuple[DiskRow, ...] | None
    gaps: tuple[str, ...]


async def broker(cluster: ConsoledCluster, broker_id: int) -> BrokerDetails:
    """Describe a broker. Raises NotFoundError if it is not there, ClientError."""
    return await cluster.ask(lambda work: _broker(work, broker_id))


async def configure_broker(
    cluster: ConsoledCluster, broker_id: int, changes: SettingChanges, *, of_all: bool = False
) -> Done:
    """Change settings of a running broker, or with `of_all` those that hold for all brokers; all of
    it is done, or none. Raises NotFoundError if the broker is not there, ClientError.
    """
    return await cluster.ask(lambda work: _configure(work, broker_id, changes, of_all=of_all))


def _configure(work: Work, broker_id: int, changes: SettingChanges, *, of_all: bool) -> Done:
    if not changes.entries():
        raise ClientError("no setting is to be changed", ExitCode.USAGE)
    _check_there(work.links, broker_id)
    gaps = Gaps()
    resource = Resource(ResourceType.BROKER, "" if of_all else str(broker_id))
    refused = changed(work.links, [resource], changes, gaps.tell)
    return Done(said=gaps.sentences(), refused=tuple(refused))


def _check_there(links: ClusterLinks, broker_id: int) -> None:
    there = sorted(each.node_id for each in links.describe([]).brokers)
    if broker_id not in there:
        raise NotFoundError(f"no such broker: {broker_id} (online: {named(there)})")


def _broker(work: Work, broker_id: int) -> BrokerDetails:
    links, gaps = work.links, Gaps()
    _check_there(links, broker_id)
    settings: tuple[Setting, ...] | None = None
    with gaps.around("settings of the broker"):
        resource = Resource(ResourceType.BROKER, str(broker_id))
        settings = tuple(describe_configs(links, [resource], with_synonyms=True)[resource])
    return BrokerDetails(
        broker_id=broker_id,
        settings=settings,
        disks=_disks(links, broker_id, gaps),
        gaps=gaps.sentences(),
    )


def _disks(links: ClusterLinks, broker_id: int, gaps: Gaps) -> tuple[DiskRow, ...] | None:
    with gaps.around("disks of the broker"):
        answer = links.ask(broker_id, DescribeLogDirsRequest(topics=None))
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        return tuple(
            DiskRow(
                path=each.log_dir,
                partitions=sum(len(topic.partitions) for topic in each.topics),
                size_bytes=sum(
                    row.partition_size for topic in each.topics for row in topic.partitions
                ),
                total_bytes=_known(each.total_bytes),
                usable_bytes=_known(each.usable_bytes),
                trouble=ErrorCode(each.error_code).name if each.error_code else None,
            )
            for each in answer.results
        )
    return None


def _known(number: int) -> int | None:
    return number if number >= 0 else None
