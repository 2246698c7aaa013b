"""Settings of Kafka 3.9 that nothing here acts on, and nothing planned will: one line each.

They are declared so that existing files and tools work: a broker knows and checks them, and
describes them as Kafka does. A setting that gets a reader moves to a `@config_group`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from kbroker.config.config_checks import non_empty
from kbroker.config.config_def import ConfigKey, Facts, Importance, Support, UpdateMode
from kbroker.config.config_values import ConfigType, parse_text

# [group: support], then name | type, bounds and whatever else is unusual | default | effect
_TABLE = """
[socket_server: accepted]
early.start.listeners | str high | null | Listeners that may serve before the authorizer is ready: here it is so before any listener opens.
num.network.threads | int >=1 high cluster-wide | 3 | Network threads in Kafka; one event loop serves all connections here.
[socket_server: not yet]
socket.connection.setup.timeout.ms | long | 10000 | First time limit to connect to another broker.
socket.connection.setup.timeout.max.ms | long | 30000 | Upper limit of the growing connect time limit.
[server: accepted]
background.threads | int >=1 high cluster-wide | 10 | Threads for background work in Kafka.
server.max.startup.time.ms | long >=0 internal | 9223372036854775807 | Longest time the start may take.
[server: not yet]
create.topic.policy.class.name | class low | null | Class that may refuse a new topic.
alter.config.policy.class.name | class low | null | Class that may refuse a configuration change.
alter.config.policy.kraft.compatibility.enable | bool low | false | Give the policy only the changed keys, as KRaft does.
eligible.leader.replicas.enable | bool high | false | Keep eligible leader replicas (KIP-966).
unstable.api.versions.enable | bool high internal | false | Offer API versions still in development.
unstable.feature.versions.enable | bool high internal | false | Offer feature levels still in development.
[log: accepted]
log.dir.failure.timeout.ms | long >=1 low | 30000 | KRaft's time limit to report a failed log directory.
[log: not yet]
log.local.retention.ms | long >=-2 cluster-wide | -2 | Retention on local disk of topics in remote storage; -2 follows retention.ms.
log.local.retention.bytes | long >=-2 cluster-wide | -2 | Local size of topics in remote storage; -2 follows retention.bytes.
[replication: accepted]
unclean.leader.election.interval.ms | long >=1 internal | 300000 | KRaft's interval to look for unclean elections.
[replication: not yet]
replica.socket.receive.buffer.bytes | int high | 65536 | SO_RCVBUF of replica fetcher connections.
[zk: accepted]
zookeeper.metadata.migration.enable | bool high | false | KRaft migration; not part of this broker.
zookeeper.metadata.migration.min.batch.size | int >=1 internal | 200 | KRaft migration; not part of this broker.
zookeeper.clientCnxnSocket | str | null | Java socket class of the ZooKeeper client.
[group: accepted]
group.coordinator.threads | int >=1 | 1 | Threads of Kafka's newer group coordinator.
group.coordinator.append.linger.ms | int >=0 | 10 | Wait of Kafka's newer coordinator to gather writes.
group.coordinator.new.enable | bool internal | false | Choose Kafka's newer group coordinator.
[group: not yet]
offsets.topic.compression.codec | int high | 0 | Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
[ssl: accepted]
ssl.provider | str per-broker | null | Java security provider.
ssl.keymanager.algorithm | str per-broker | SunX509 | Java key manager algorithm.
ssl.trustmanager.algorithm | str per-broker | PKIX | Java trust manager algorithm.
ssl.secure.random.implementation | str low per-broker | null | Java random number generator.
ssl.engine.factory.class | class low per-broker | null | Java class that makes TLS engines.
[sasl: accepted]
sasl.mechanism.controller.protocol | str high | GSSAPI | Mechanism towards a KRaft controller.
sasl.client.callback.handler.class | class | null | Java class for the client side of a login.
sasl.login.class | class | null | Java class of the login.
[security: accepted]
security.providers | str low | null | Java security providers.
[metrics: accepted]
metrics.num.samples | int >=1 low | 2 | Samples a metric is computed from.
metrics.sample.window.ms | long >=1 low | 30000 | Length of a sample.
metrics.recording.level | str low | INFO | Highest level of metrics that are kept.
auto.include.jmx.reporter | bool low | true | Report through JMX even when not named.
kafka.metrics.polling.interval.secs | int >=1 low | 10 | How often these are asked.
[metrics: not yet]
metric.reporters | list low cluster-wide |  | Java classes that report metrics.
kafka.metrics.reporters | list low |  | Java classes that report the older metrics.
telemetry.max.bytes | int >=1 low | 1048576 | Largest metrics push of a client.
[quorum: accepted]
controller.quorum.election.timeout.ms | int high | 1000 | KRaft: wait before an election.
controller.quorum.election.backoff.max.ms | int high | 1000 | KRaft: longest wait before another election.
controller.quorum.fetch.timeout.ms | int high | 2000 | KRaft: wait for the leader before an election.
controller.quorum.request.timeout.ms | int | 2000 | KRaft: time limit of a request.
controller.quorum.retry.backoff.ms | int low | 20 | KRaft: wait before a request is repeated.
controller.quorum.append.linger.ms | int | 25 | KRaft: wait to gather writes.
broker.heartbeat.interval.ms | int | 2000 | KRaft: heartbeat of a broker.
broker.session.timeout.ms | int | 9000 | KRaft: a silent broker is fenced after this.
initial.broker.registration.timeout.ms | int | 60000 | KRaft: time limit of the first registration.
metadata.log.max.record.bytes.between.snapshots | long >=1 high | 20971520 | KRaft: metadata bytes between snapshots.
metadata.log.max.snapshot.interval.ms | long >=0 high | 3600000 | KRaft: time between snapshots.
metadata.log.segment.bytes | int >=12 high | 1073741824 | KRaft: segment size of the metadata log.
metadata.log.segment.min.bytes | int >=12 high internal | 8388608 | KRaft: lower bound of that size.
metadata.log.segment.ms | long high | 604800000 | KRaft: age at which its segments roll.
metadata.max.idle.interval.ms | int >=0 low | 500 | KRaft: interval of no-op records.
metadata.max.retention.bytes | long high | 104857600 | KRaft: size of metadata kept.
metadata.max.retention.ms | long high | 604800000 | KRaft: age of metadata kept.
[remote_storage: not yet]
remote.log.storage.system.enable | bool | false | Offer tiered storage.
remote.log.storage.manager.class.name | str non_empty | null | Class that stores segments remotely.
remote.log.storage.manager.class.path | str | null | Where that class is loaded from.
remote.log.storage.manager.impl.prefix | str non_empty | rsm.config. | Prefix of that class's own settings.
remote.log.metadata.manager.class.name | str non_empty | org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager | Class that keeps the list of remote segments.
remote.log.metadata.manager.class.path | str | null | Where that class is loaded from.
remote.log.metadata.manager.impl.prefix | str non_empty | rlmm.config. | Prefix of that class's own settings.
remote.log.metadata.manager.listener.name | str non_empty | null | Listener that class connects to.
remote.log.metadata.custom.metadata.max.bytes | int >=0 low | 128 | Largest custom metadata of a remote segment.
remote.log.index.file.cache.total.size.bytes | long >=1 low cluster-wide | 1073741824 | Local space for indexes of remote segments.
remote.log.manager.thread.pool.size | int >=1 | 10 | Threads of the remote log manager.
remote.log.manager.copier.thread.pool.size | int | -1 | Threads that copy segments; -1 follows the pool above.
remote.log.manager.expiration.thread.pool.size | int | -1 | Threads that expire segments; -1 follows the pool above.
remote.log.manager.task.interval.ms | long >=1 low | 30000 | How often the manager looks for work.
remote.log.manager.task.retry.backoff.ms | long >=1 low internal | 500 | First wait after a failed task.
remote.log.manager.task.retry.backoff.max.ms | long >=1 low internal | 30000 | Longest wait after a failed task.
remote.log.manager.task.retry.jitter | double >=0 <=0.5 low internal | 0.2 | Random part of these waits.
remote.log.manager.copy.max.bytes.per.second | long >=1 cluster-wide | 9223372036854775807 | Limit of copying to remote storage.
remote.log.manager.copy.quota.window.num | int >=1 | 11 | Windows kept for that limit.
remote.log.manager.copy.quota.window.size.seconds | int >=1 | 1 | Length of such a window.
remote.log.manager.fetch.max.bytes.per.second | long >=1 cluster-wide | 9223372036854775807 | Limit of reading from remote storage.
remote.log.manager.fetch.quota.window.num | int >=1 | 11 | Windows kept for that limit.
remote.log.manager.fetch.quota.window.size.seconds | int >=1 | 1 | Length of such a window.
remote.log.reader.threads | int >=1 | 10 | Threads that read remote segments.
remote.log.reader.max.pending.tasks | int >=1 | 100 | Remote reads that may wait.
remote.fetch.max.wait.ms | int >=1 cluster-wide | 500 | How long a remote read may take before the fetch is answered.
"""

_TYPES = {
    "bool": ConfigType.BOOLEAN,
    "class": ConfigType.CLASS,
    "double": ConfigType.DOUBLE,
    "int": ConfigType.INT,
    "list": ConfigType.LIST,
    "long": ConfigType.LONG,
    "str": ConfigType.STRING,
}


def _keys(table: str) -> Iterator[tuple[str, ConfigKey]]:
    group = support = ""
    for line in filter(None, table.splitlines()):
        if line.startswith("["):
            group, _, support = line.strip("[]").partition(": ")
            continue
        name, words, text, doc = line.split(" | ")
        type_word, *rest = words.split()
        config_type = _TYPES[type_word]
        default = None if text == "null" else parse_text(name, config_type, text)
        facts: Facts = {"support": cast("Support", support)}
        for word in rest:
            _add_fact(facts, word)
        yield group, ConfigKey(name, config_type, default, doc, facts)


def _add_fact(facts: Facts, word: str) -> None:
    if word.startswith(">="):
        facts["at_least"] = int(word[2:])
    elif word.startswith("<="):
        facts["at_most"] = float(word[2:])
    elif word in ("low", "high"):
        facts["importance"] = cast("Importance", word)
    elif word == "internal":
        facts["internal"] = True
    elif word == "non_empty":
        facts["check"] = non_empty
    else:
        facts["dynamic"] = cast("UpdateMode", word)


def _by_group() -> Mapping[str, tuple[ConfigKey, ...]]:
    groups: dict[str, tuple[ConfigKey, ...]] = {}
    for group, key in _keys(_TABLE):
        groups[group] = (*groups.get(group, ()), key)
    return groups


# The settings by the group that they would belong to.
UNSERVED_SETTINGS = _by_group()
