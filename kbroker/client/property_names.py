"""Property names of Kafka's clients, Java's and librdkafka's, that commands do not act on.

A file that is shared with other programs may hold them; any other name is a misspelling.
"""

from __future__ import annotations

_OTHER = """
acks allow.auto.create.topics api.version.fallback.ms api.version.request
api.version.request.timeout.ms auto.commit.enable auto.commit.interval.ms
auto.include.jmx.reporter auto.offset.reset batch.num.messages batch.size bootstrap.controllers
broker.address.family broker.address.ttl broker.version.fallback buffer.memory builtin.features
check.crcs client.dns.lookup client.rack client.software.name client.software.version
compression.codec compression.gzip.level compression.level compression.lz4.level
compression.type compression.zstd.level config.providers connections.max.idle.ms
consume.callback.max.messages coordinator.query.interval.ms debug default.api.timeout.ms
delivery.report.only.error delivery.timeout.ms enable.auto.commit enable.auto.offset.store
enable.gapless.guarantee enable.idempotence enable.metrics.push enable.partition.eof
enable.random.seed enable.sparse.connections exclude.internal.topics fetch.error.backoff.ms
fetch.max.bytes fetch.max.wait.ms fetch.message.max.bytes fetch.min.bytes
fetch.queue.backoff.ms fetch.wait.max.ms group.id group.instance.id group.protocol
group.protocol.type group.remote.assignor heartbeat.interval.ms interceptor.classes
internal.leave.group.on.close internal.termination.signal
internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer
key.serializer linger.ms log.connection.close log.queue log.thread.name log_level
max.block.ms max.in.flight max.in.flight.requests.per.connection max.partition.fetch.bytes
max.poll.interval.ms max.poll.records max.request.size message.copy.max.bytes
message.max.bytes message.send.max.retries message.timeout.ms metadata.max.age.ms
metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
metadata.request.timeout.ms metric.reporters metrics.num.samples metrics.recording.level
metrics.sample.window.ms offset.store.method offset.store.path offset.store.sync.interval.ms
partition.assignment.strategy partitioner partitioner.adaptive.partitioning.enable
partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
plugin.library.paths produce.offset.report queue.buffering.backpressure.threshold
queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms
queued.max.messages.kbytes queued.min.messages queuing.strategy rebalance.timeout.ms
receive.buffer.bytes receive.message.max.bytes reconnect.backoff.jitter.ms
reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks retries
retry.backoff.max.ms retry.backoff.ms send.buffer.bytes session.timeout.ms
share.acknowledgement.mode share.acquire.mode socket.blocking.max.ms
socket.connection.setup.timeout.max.ms socket.keepalive.enable socket.max.fails
socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
statistics.interval.ms sticky.partitioning.linger.ms topic.blacklist
topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
topic.metadata.refresh.sparse transaction.timeout.ms transaction.two.phase.commit.enable
transactional.id value.deserializer value.serializer
"""

_SECURITY = """
enable.sasl.oauthbearer.unsecure.jwt https.ca.location https.ca.pem
sasl.client.callback.handler.class security.providers ssl.ca.certificate.stores
ssl.cipher.suites ssl.client.auth ssl.crl.location ssl.curves.list ssl.enabled.protocols
ssl.engine.factory.class ssl.engine.id ssl.engine.location ssl.keymanager.algorithm
ssl.protocol ssl.provider ssl.providers ssl.secure.random.implementation ssl.sigalgs.list
ssl.trustmanager.algorithm
"""

_TOKENS = """
https.ca.location https.ca.pem sasl.login.callback.handler.class sasl.login.connect.timeout.ms
sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.extensions
sasl.oauthbearer.header.urlencode sasl.oauthbearer.method sasl.oauthbearer.scope
sasl.oauthbearer.token.endpoint.url
"""

TOKEN_NAMES = frozenset(_TOKENS.split())
"""Acted on in a login by OAUTHBEARER."""
OTHER_NAMES = frozenset(_OTHER.split())
SECURITY_NAMES = frozenset(_SECURITY.split())
SECURITY_FAMILIES = ("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.")  # how names begin
OTHER_FAMILIES = (
    "auto.register.",
    "basic.auth.",
    "bearer.auth.",
    "confluent.",
    "default.list.",
    "schema.registry.",
    "use.latest.",
)
"""How the names for serializers and schema registries begin."""
