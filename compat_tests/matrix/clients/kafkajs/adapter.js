// KafkaJS: requests of 2019 to 2022. It reads by groups only.

import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { enough, groupCalls, inTurn, PATIENCE_MS, serve, toJson, toObject, toPairs } from './serve.js'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs
const CODECS = { none: 0, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4 }

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => lz4Compress(encoder.buffer),
  decompress: async (buffer) => lz4Decompress(buffer),
})

const kafka = new Kafka({
  brokers: [process.argv[2]], logLevel: logLevel.NOTHING, requestTimeout: PATIENCE_MS, retry: { initialRetryTime: 50, maxRetryTime: 1000, retries: 100 },
})
const admin = kafka.admin({ retry: { initialRetryTime: 50, retries: 5 } }) // refusals too are tried again
await admin.connect()
let readers = 0

async function follow(groupId, topic, eachMessage) {
  const consumer = kafka.consumer({
    groupId, heartbeatInterval: 200, rebalanceTimeout: 10_000, maxWaitTimeInMs: 100, retry: { initialRetryTime: 50 },
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommitInterval: 50, eachMessage })
  return consumer
}

async function join({ group, topic }, see) {
  const consumer = await follow(group, topic, async ({ message }) => see(message.value.toString()))
  return async () => {
    await sleep(200) // the last commit is on its way
    await consumer.disconnect()
  }
}

async function read({ topic, start, count }) {
  const found = []
  const consumer = await follow(`${topic}-reader-${readers++}`, topic, async ({ message }) => {
    if (Number(message.offset) >= start && found.length < count) {
      found.push({ ...message, partition: 0, headers: toPairs(message.headers) })
    }
  })
  consumer.seek({ topic, partition: 0, offset: String(start) })
  await enough(found, count)
  await consumer.disconnect()
  return found.map(toJson)
}

async function write(request) {
  const { topic, codec, acks, idempotent } = request
  const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 })
  await producer.connect()
  await inTurn(request, (records) => {
    const messages = records.map((one) => ({ ...one, headers: toObject(one.headers), timestamp: String(one.timestamp) }))
    return producer.send({ topic, messages, acks, compression: CODECS[codec] })
  })
  await producer.disconnect()
}

async function transact({ name, topic, transactions }) {
  const producer = kafka.producer({ transactionalId: name, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (const { values, commit } of transactions) {
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: values.map((value) => ({ value })) })
    await (commit ? transaction.commit() : transaction.abort())
  }
  await producer.disconnect()
}

await serve(
  {
    ...groupCalls(join),
    read,
    write,
    transact,
    hello: () => ({ version: createRequire(import.meta.url)('kafkajs/package.json').version }),
    async create({ topics, partitions, config }) {
      const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
      const wanted = topics.map((topic) => ({ topic, numPartitions: partitions, replicationFactor: -1, configEntries }))
      const isNew = await admin.createTopics({ topics: wanted, waitForLeaders: false, timeout: PATIENCE_MS })
      if (!isNew) throw Object.assign(new Error('the topic exists'), { code: 36 }) // it answers false
    },
    delete: ({ topics }) => admin.deleteTopics({ topics, timeout: PATIENCE_MS }),
    topics: () => admin.listTopics(),
    partitions: async ({ topic }) => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length,
    async config({ topic, name }) {
      const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }]
      const described = await admin.describeConfigs({ resources, includeSynonyms: false })
      return described.resources[0].configEntries[0].configValue
    },
    async delete_records({ topic, before }) {
      await admin.fetchTopicOffsets(topic) // it deletes only of topics that it knows
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(before) }] })
    },
    async ends({ topic }) {
      const [partition] = await admin.fetchTopicOffsets(topic)
      return [Number(partition.low), Number(partition.high)]
    },
    offset_at: async ({ topic, timestamp }) => Number((await admin.fetchTopicOffsetsByTimestamp(topic, timestamp))[0].offset),
    groups: async () => (await admin.listGroups()).groups.map((group) => group.groupId),
    async describe_group({ group }) {
      const [described] = (await admin.describeGroups([group])).groups
      return { state: described.state, members: described.members.length }
    },
    async committed({ group, topic }) {
      const [fetched] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      return fetched.partitions.reduce((sum, partition) => sum + Number(partition.offset), 0)
    },
    delete_group: ({ group }) => admin.deleteGroups([group]).then(() => null),
  },
  (error) => error.code ?? error.cause?.code ?? error.errors?.[0]?.code,
)
