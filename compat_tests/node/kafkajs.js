// KafkaJS: requests of 2019 to 2022.

import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import zlib from 'node:zlib'
import { setTimeout as sleep } from 'node:timers/promises'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs
const CODECS = { none: 0, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4 }

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => lz4Compress(encoder.buffer),
  decompress: async (buffer) => lz4Decompress(buffer),
})
if (zlib.zstdCompressSync) {
  CODECS.zstd = CompressionTypes.ZSTD
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => zlib.zstdCompressSync(encoder.buffer),
    decompress: async (buffer) => zlib.zstdDecompressSync(buffer),
  })
}

export async function newKafkajs(address) {
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50, retries: 20 } })
  const admin = kafka.admin()
  await admin.connect()
  const count = { reader: 0 }

  async function follow(groupId, topic, options, eachMessage) {
    const consumer = kafka.consumer({
      groupId, heartbeatInterval: 200, rebalanceTimeout: 10_000, maxWaitTimeInMs: 100, retry: { initialRetryTime: 50 }, ...options,
    })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ autoCommitInterval: 50, eachMessage })
    return consumer
  }

  // KafkaJS reads by groups only; a seek begins where it is told.
  async function readFor(topic, from, enough) {
    const found = []
    const consumer = await follow(`${topic}-${count.reader++}`, topic, {}, async ({ message }) => {
      if (Number(message.offset) < from) return
      found.push({
        key: message.key, value: message.value, headers: message.headers, timestamp: Number(message.timestamp),
        offset: Number(message.offset), partition: 0,
      })
    })
    consumer.seek({ topic, partition: 0, offset: String(from) })
    await enough(found)
    await consumer.disconnect()
    return found
  }

  return {
    codecs: Object.keys(CODECS),
    create: (numPartitions, topics) =>
      admin.createTopics({
        topics: topics.map((topic) => ({ topic, numPartitions, replicationFactor: -1 })), waitForLeaders: false,
      }),
    async partitions(topics) {
      const known = new Set(await admin.listTopics())
      const wanted = topics.filter((topic) => known.has(topic))
      if (wanted.length === 0) return new Map()
      const described = await admin.fetchTopicMetadata({ topics: wanted }).catch(() => ({ topics: [] }))
      return new Map(described.topics.map((topic) => [topic.name, topic.partitions.length]))
    },
    async write(topic, how, records) {
      const producer = kafka.producer({ idempotent: how.idempotent ?? false, maxInFlightRequests: 1 })
      await producer.connect()
      const messages = records.map((record) => ({ ...record, timestamp: String(record.timestamp) }))
      await producer.send({ topic, messages, acks: how.acks, compression: CODECS[how.codec] })
      await producer.disconnect()
    },
    async transact(transactionalId, topic, transactions) {
      const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })
      await producer.connect()
      for (const { records, commit } of transactions) {
        const transaction = await producer.transaction()
        await transaction.send({ topic, messages: records.map((record) => ({ value: record.value })) })
        await (commit ? transaction.commit() : transaction.abort())
      }
      await producer.disconnect()
    },
    async read(topic, from, wanted) {
      const found = await readFor(topic, from, async (records) => {
        for (let i = 0; records.length < wanted && i < 1500; i++) await sleep(20)
      })
      return found
    },
    readsNothing: async (topic, waitMs) => (await readFor(topic, 0, () => sleep(waitMs))).length === 0,
    async ends(topic) {
      const [partition] = await admin.fetchTopicOffsets(topic)
      return [Number(partition.low), Number(partition.high)]
    },
    async offsetAt(topic, timestamp) {
      const [partition] = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)
      return Number(partition.offset)
    },
    async config(topic, name) {
      const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }]
      const described = await admin.describeConfigs({ resources, includeSynonyms: false })
      return described.resources[0].configEntries[0].configValue
    },
    async join(groupId, topic, see) {
      const consumer = await follow(groupId, topic, {}, async ({ message }) => see(message.value.toString()))
      return {
        async close() {
          await sleep(200) // the last commit is on its way
          await consumer.disconnect()
        },
      }
    },
    groups: async () => (await admin.listGroups()).groups.map((group) => group.groupId),
    async describe(groupId) {
      const [group] = (await admin.describeGroups([groupId])).groups
      const owned = group.members.map((member) => {
        const assignment = kafkajs.AssignerProtocol.MemberAssignment.decode(member.memberAssignment)
        return assignment ? Object.values(assignment.assignment).flat().length : 0
      })
      return { state: group.state, owned }
    },
    async committed(groupId, topic) {
      const [fetched] = await admin.fetchOffsets({ groupId, topics: [topic] })
      return fetched.partitions.reduce((sum, partition) => sum + Number(partition.offset), 0)
    },
    deleteGroup: (groupId) => admin.deleteGroups([groupId]),
    remove: (topics) => admin.deleteTopics({ topics }),
    close: () => admin.disconnect(),
  }
}
