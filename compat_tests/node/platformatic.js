// @platformatic/kafka: only the newest version of each request.

import {
  Admin, Consumer, MessagesStreamModes, Producer, allowedCompressionsAlgorithms, compressionsAlgorithms,
} from '@platformatic/kafka'
import { setTimeout as sleep } from 'node:timers/promises'

export async function newPlatformatic(address) {
  const common = { clientId: 'platformatic', bootstrapBrokers: [address], metadataMaxAge: 50 }
  const admin = new Admin(common)
  const count = { reader: 0 }

  async function readFor(topic, from, wanted, waitMs) {
    const consumer = new Consumer({ ...common, groupId: `${topic}-${count.reader++}` })
    const stream = await consumer.consume({
      topics: [topic], mode: MessagesStreamModes.MANUAL, offsets: [{ topic, partition: 0, offset: BigInt(from) }],
      maxWaitTime: 100, autocommit: false, maxBytes: 10_000_000,
    })
    const found = []
    const impatience = setTimeout(() => stream.close(), waitMs)
    for await (const message of stream) {
      const headers = Object.fromEntries([...message.headers].map(([key, value]) => [key.toString(), value]))
      found.push({
        key: message.key ?? null, value: message.value ?? null, headers, timestamp: Number(message.timestamp),
        offset: Number(message.offset), partition: 0,
      })
      if (found.length === wanted) break
    }
    clearTimeout(impatience)
    await consumer.close(true)
    return found
  }

  async function listed(topic, timestamp) {
    const topics = [{ name: topic, partitions: [{ partitionIndex: 0, timestamp: BigInt(timestamp) }] }]
    const [answer] = await admin.listOffsets({ topics })
    return Number(answer.partitions[0].offset)
  }

  return {
    codecs: allowedCompressionsAlgorithms.filter((codec) => compressionsAlgorithms[codec].available),
    create: (partitions, topics) => admin.createTopics({ topics, partitions, replicas: 1 }),
    async partitions(topics) {
      const known = new Set(await admin.listTopics())
      const wanted = topics.filter((topic) => known.has(topic))
      if (wanted.length === 0) return new Map()
      const metadata = await admin.metadata({ topics: wanted, forceUpdate: true })
      return new Map(wanted.map((topic) => [topic, metadata.topics.get(topic).partitionsCount]))
    },
    async write(topic, how, records) {
      const producer = new Producer({ ...common, autocreateTopics: false })
      const messages = records.map((record) => ({
        ...record, topic, key: record.key ?? undefined, value: record.value ?? undefined, timestamp: BigInt(record.timestamp),
        headers: new Map(Object.entries(record.headers).map(([key, value]) => [Buffer.from(key), value])),
      }))
      await producer.send({ messages, acks: how.acks, idempotent: how.idempotent ?? false, compression: how.codec })
      await producer.close()
    },
    read: (topic, from, wanted) => readFor(topic, from, wanted, 30_000),
    readsNothing: async (topic, waitMs) => (await readFor(topic, 0, 1, waitMs)).length === 0,
    ends: async (topic) => [await listed(topic, -2), await listed(topic, -1)],
    offsetAt: listed,
    async config(topic, name) {
      const resources = [{ resourceType: 2, resourceName: topic, configurationKeys: [name] }]
      const [described] = await admin.describeConfigs({ resources })
      return described.configs[0].value
    },
    async join(groupId, topic, see) {
      const consumer = new Consumer({ ...common, groupId, sessionTimeout: 10_000, heartbeatInterval: 200, maxWaitTime: 100 })
      const stream = await consumer.consume({
        topics: [topic], mode: MessagesStreamModes.COMMITTED, fallbackMode: 'earliest', autocommit: 50,
      })
      stream.on('data', (message) => see(message.value.toString()))
      return {
        async close() {
          await sleep(200) // the last commit is on its way
          await consumer.close(true)
        },
      }
    },
    groups: async () => [...(await admin.listGroups()).keys()],
    async describe(groupId) {
      const group = (await admin.describeGroups({ groups: [groupId] })).get(groupId)
      const owned = [...group.members.values()].map((member) =>
        [...(member.assignments?.values() ?? [])].reduce((sum, one) => sum + one.partitions.length, 0),
      )
      return { state: group.state, owned }
    },
    async committed(groupId, topic) {
      const [group] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
      const { partitions } = group.topics.find((one) => one.name === topic)
      return partitions.reduce((sum, partition) => sum + Number(partition.committedOffset), 0)
    },
    deleteGroup: (groupId) => admin.deleteGroups({ groups: [groupId] }),
    remove: (topics) => admin.deleteTopics({ topics }),
    close: () => admin.close(),
  }
}
