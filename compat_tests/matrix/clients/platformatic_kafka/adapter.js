// @platformatic/kafka: only the newest version of each request.

import { Admin, Consumer, MessagesStreamModes, FetchIsolationLevels, Producer } from '@platformatic/kafka'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { enough, groupCalls, inTurn, PATIENCE_MS, serve, toJson } from './serve.js'

const common = {
  clientId: 'platformatic', bootstrapBrokers: [process.argv[2]], metadataMaxAge: 50, retries: PATIENCE_MS / 100, retryDelay: 100,
}
const admin = new Admin({ ...common, retries: 5 }) // refusals too are tried again
let readers = 0

async function read({ topic, start, count, committed }) {
  const consumer = new Consumer({ ...common, groupId: `${topic}-reader-${readers++}` })
  const isolationLevel = FetchIsolationLevels[committed ? 'READ_COMMITTED' : 'READ_UNCOMMITTED']
  const stream = await consumer.consume({
    topics: [topic], mode: MessagesStreamModes.MANUAL, offsets: [{ topic, partition: 0, offset: BigInt(start) }],
    maxWaitTime: 100, autocommit: false, maxBytes: 10_000_000, isolationLevel,
  })
  const found = []
  let failed
  stream.on('error', (error) => (failed = error))
  stream.on('data', (message) => found.push({ ...message, partition: 0, headers: [...message.headers] }))
  try {
    await enough(found, count, () => failed)
  } finally {
    await consumer.close(true)
  }
  return found.slice(0, count).map(toJson)
}

async function write(request) {
  const { topic, codec, acks, idempotent } = request
  const producer = new Producer({ ...common, autocreateTopics: false, timeout: PATIENCE_MS })
  await inTurn(request, (records) => {
    const messages = records.map((one) => ({
      topic, partition: one.partition, timestamp: BigInt(one.timestamp),
      key: one.key ?? undefined, value: one.value ?? undefined,
      headers: new Map(one.headers.map(([name, value]) => [Buffer.from(name), value])),
    }))
    return producer.send({ messages, acks, idempotent, compression: codec })
  })
  await producer.close()
}

async function transact({ name, topic, transactions }) {
  const producer = new Producer({ ...common, transactionalId: name, idempotent: true })
  for (const { values, commit } of transactions) {
    const transaction = await producer.beginTransaction()
    await transaction.send({ messages: values.map((value) => ({ topic, partition: 0, value: Buffer.from(value) })) })
    await (commit ? transaction.commit() : transaction.abort())
  }
  await producer.close()
}

async function join({ group, topic, assignor }, see) {
  const timing = assignor === 'consumer' ? { groupProtocol: 'consumer' } : { sessionTimeout: 10_000, heartbeatInterval: 200 }
  const consumer = new Consumer({ ...common, groupId: group, maxWaitTime: 100, ...timing })
  const stream = await consumer.consume({
    topics: [topic], mode: MessagesStreamModes.COMMITTED, fallbackMode: 'earliest', autocommit: 50,
  })
  stream.on('error', (error) => console.error(error))
  stream.on('data', (message) => see(message.value.toString()))
  return async () => {
    await sleep(200) // the last commit is on its way
    await consumer.close(true)
  }
}

async function listed(topic, timestamp) {
  const topics = [{ name: topic, partitions: [{ partitionIndex: 0, timestamp: BigInt(timestamp) }] }]
  const [answer] = await admin.listOffsets({ topics })
  return Number(answer.partitions[0].offset)
}

// The code of the innermost error that has one.
function codeOf(error) {
  for (const inner of [...(error?.errors ?? []), error?.cause].filter(Boolean)) {
    const code = codeOf(inner)
    if (code) return code
  }
  return error?.apiCode
}

const { version } = JSON.parse(readFileSync(new URL('./node_modules/@platformatic/kafka/package.json', import.meta.url)))

await serve(
  {
    ...groupCalls(join),
    read,
    write,
    transact,
    hello: () => ({ version }),
    async create({ topics, partitions, config }) {
      const configs = Object.entries(config).map(([name, value]) => ({ name, value }))
      await admin.createTopics({ topics, partitions, replicas: 1, configs })
    },
    delete: ({ topics }) => admin.deleteTopics({ topics }),
    topics: () => admin.listTopics(),
    partitions: async ({ topic }) =>
      (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic).partitionsCount,
    async config({ topic, name }) {
      const resources = [{ resourceType: 2, resourceName: topic, configurationKeys: [name] }]
      return (await admin.describeConfigs({ resources }))[0].configs[0].value
    },
    async delete_records({ topic, before }) {
      const topics = [{ name: topic, partitions: [{ partition: 0, offset: BigInt(before) }] }]
      const [answer] = await admin.deleteRecords({ topics })
      return Number(answer.partitions[0].lowWatermark)
    },
    ends: async ({ topic }) => [await listed(topic, -2), await listed(topic, -1)],
    offset_at: ({ topic, timestamp }) => listed(topic, timestamp),
    groups: async () => [...(await admin.listGroups()).keys()],
    async describe_group({ group }) {
      const described = (await admin.describeGroups({ groups: [group] })).get(group)
      return { state: described.state, members: described.members.size }
    },
    async committed({ group, topic }) {
      const [found] = await admin.listConsumerGroupOffsets({ groups: [group] })
      const { partitions } = found.topics.find((one) => one.name === topic)
      return partitions.reduce((sum, partition) => sum + Number(partition.committedOffset), 0)
    },
    delete_group: ({ group }) => admin.deleteGroups({ groups: [group] }).then(() => null),
  },
  codeOf,
)
