// Confluent's library, by the API of KafkaJS; it reads by groups only.

import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { enough, groupCalls, inTurn, serve, toJson, toObject, toPairs } from './serve.js'

const require = createRequire(import.meta.url)
const { Kafka, ConfigResourceTypes, PartitionAssigners, logLevel } = require('@confluentinc/kafka-javascript').KafkaJS

const kafka = new Kafka({ kafkaJS: { brokers: [process.argv[2]], logLevel: logLevel.NOTHING } })
const admin = kafka.admin()
await admin.connect()
let readers = 0

async function follow(groupId, topic, options, eachMessage) {
  const consumer = kafka.consumer({
    kafkaJS: { groupId, fromBeginning: true, autoCommitInterval: 50, ...options.kafkaJS },
    ...options.own,
  })
  await consumer.connect()
  await consumer.subscribe({ topic })
  await consumer.run({ eachMessage })
  return consumer
}

const quick = { sessionTimeout: 10_000, heartbeatInterval: 200 }

async function join({ group, topic, assignor, instance, pattern }, see) {
  const { cooperativeSticky, roundRobin } = PartitionAssigners
  const partitionAssigners = [assignor === 'cooperative' ? cooperativeSticky : roundRobin]
  const options = assignor === 'consumer' ? { own: { 'group.protocol': 'consumer' } } : { kafkaJS: { ...quick, partitionAssigners } }
  if (instance) options.own['group.instance.id'] = instance
  const wanted = pattern ? new RegExp(pattern) : topic
  const consumer = await follow(group, wanted, options, async ({ message }) => see(message.value.toString()))
  return async () => {
    await sleep(200) // the last commit is on its way
    await consumer.disconnect()
  }
}

async function read({ topic, start, count, committed }) {
  const found = []
  const options = { kafkaJS: { ...quick, readUncommitted: !committed } }
  const consumer = await follow(`${topic}-reader-${readers++}`, topic, options, async ({ message }) => {
    if (Number(message.offset) >= start && found.length < count) {
      found.push({ ...message, partition: 0, headers: toPairs(message.headers) })
    }
  })
  await enough(found, count)
  await consumer.disconnect()
  return found.map(toJson)
}

async function write(request) {
  const { topic, codec, acks, idempotent } = request
  const producer = kafka.producer({ kafkaJS: { idempotent, acks, compression: codec }, 'message.max.bytes': 2_000_000 })
  await producer.connect()
  await inTurn(request, (records) => {
    const messages = records.map((one) => ({ ...one, headers: toObject(one.headers), timestamp: String(one.timestamp) }))
    return producer.send({ topic, messages })
  })
  await producer.disconnect()
}

async function transact({ name, topic, transactions }) {
  const producer = kafka.producer({ kafkaJS: { transactionalId: name } })
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
    hello: () => ({ version: require('@confluentinc/kafka-javascript/package.json').version }),
    async create({ topics, partitions, config }) {
      const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
      const isNew = await admin.createTopics({ topics: topics.map((topic) => ({ topic, numPartitions: partitions, configEntries })) })
      if (!isNew) throw Object.assign(new Error('the topic exists'), { code: 36 }) // it answers false
    },
    delete: ({ topics }) => admin.deleteTopics({ topics }),
    topics: () => admin.listTopics(),
    partitions: async ({ topic }) => (await admin.fetchTopicMetadata({ topics: [topic] }))[0].partitions.length,
    delete_records: async ({ topic, before }) =>
      (await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(before) }] }))[0].lowWatermark,
    async ends({ topic }) {
      const [partition] = await admin.fetchTopicOffsets(topic)
      return [Number(partition.low), Number(partition.high)]
    },
    offset_at: async ({ topic, timestamp }) => Number((await admin.fetchTopicOffsetsByTimestamp(topic, timestamp))[0].offset),
    groups: async () => (await admin.listGroups()).groups.map((group) => group.groupId),
    async describe_group({ group }) {
      const [described] = (await admin.describeGroups([group])).groups
      return { state: ['', '', '', 'STABLE', 'DEAD', 'EMPTY'][described.state] ?? String(described.state), members: described.members.length }
    },
    async committed({ group, topic }) {
      const [fetched] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      return fetched.partitions.reduce((sum, partition) => sum + Number(partition.offset), 0)
    },
    delete_group: ({ group }) => admin.deleteGroups([group]).then(() => null),
  },
  (error) => error.code ?? error.cause?.code,
)
