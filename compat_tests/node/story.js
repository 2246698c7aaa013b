// What every library is asked to do, chapter by chapter; each gets names of topics and groups of its own.

import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'

export const chapters = [
  ['every codec', everyCodec],
  ['every acks', everyAcks],
  ['a record of 900 KB', bigRecord],
  ['offsets', offsets],
  ['nothing to read', nothingToRead],
  ['transactions', transactions],
  ['a group of two', groupOfTwo],
  ['200 topics', manyTopics],
]

// An hour ago: what is older than a topic's retention may be deleted at any moment.
const FIRST_TIME_MS = Date.now() - 3_600_000

const binary = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
const shapes = [
  { key: Buffer.from('key'), value: Buffer.from('value'), headers: {} },
  { key: null, value: Buffer.from('no key'), headers: {} },
  { key: Buffer.from('tombstone'), value: null, headers: {} },
  { key: Buffer.from('h'), value: Buffer.from('headers'), headers: { a: Buffer.from('1'), b: Buffer.from('') } },
  { key: binary, value: binary, headers: { bin: binary } },
  { key: Buffer.from('big'), value: Buffer.from('0123456789abcdef'.repeat(64)), headers: {} },
]

// Records of all shapes, one millisecond apart.
function samples(count) {
  return Array.from({ length: count }, (_, i) => ({
    ...shapes[i % shapes.length], timestamp: FIRST_TIME_MS + i, offset: i, partition: 0,
  }))
}

function numbers(first, count, partitions) {
  return Array.from({ length: count }, (_, i) => ({
    key: null, value: Buffer.from(String(first + i)), headers: {}, timestamp: Date.now(), partition: (first + i) % partitions,
  }))
}

export async function eventually(what, done) {
  const deadline = Date.now() + 30_000
  while (!(await done())) {
    assert(Date.now() < deadline, `not within 30 s: ${what}`)
    await sleep(20)
  }
}

async function create(client, partitions, ...topics) {
  await client.create(partitions, topics)
  await eventually('the topics are there', async () => (await client.partitions(topics)).size === topics.length)
}

async function everyCodec(client, id) {
  for (const codec of client.codecs) {
    const topic = `${id}-${codec}`
    await create(client, 1, topic)
    await client.write(topic, { codec, acks: -1 }, samples(300))
    assert.deepEqual(await client.read(topic, 0, 300), samples(300))
  }
  assert.deepEqual(await client.read(`${id}-gzip`, 200, 100), samples(300).slice(200))
}

async function everyAcks(client, id) {
  for (const how of [{ acks: 0 }, { acks: 1 }, { acks: -1, idempotent: true }]) {
    const topic = `${id}-${how.acks}`
    await create(client, 1, topic)
    await client.write(topic, { codec: 'none', ...how }, samples(60))
    assert.deepEqual(await client.read(topic, 0, 60), samples(60))
  }
}

async function bigRecord(client, id) {
  await create(client, 1, id)
  const big = [0, 1].map((i) => ({ ...samples(2)[i], value: Buffer.alloc(900_000, 'x') }))
  for (const one of big) await client.write(id, { codec: 'none', acks: -1 }, [one])
  assert.deepEqual(await client.read(id, 0, 2), big.map((one) => ({ ...one })))
}

async function offsets(client, id) {
  await create(client, 1, id)
  await client.write(id, { codec: 'none', acks: -1 }, samples(100))
  assert.deepEqual(await client.ends(id), [0, 100])
  assert.equal(await client.offsetAt(id, FIRST_TIME_MS + 42), 42)
  assert.equal(await client.config(id, 'cleanup.policy'), 'delete')
}

async function nothingToRead(client, id) {
  await create(client, 1, id)
  const began = Date.now()
  assert(await client.readsNothing(id, 300))
  assert(Date.now() - began < 10_000)
}

async function transactions(client, id) {
  if (!client.transact) return
  await create(client, 1, id)
  await client.transact(id, id, [
    { records: numbers(0, 3, 1), commit: true }, { records: numbers(3, 3, 1), commit: false },
    { records: numbers(6, 3, 1), commit: true },
  ])
  const found = await client.read(id, 0, 6) // of KafkaJS, which reads what is committed by itself
  assert.deepEqual(found.map((record) => record.value.toString()), ['0', '1', '2', '6', '7', '8'])
}

async function groupOfTwo(client, id) {
  const seen = []
  const distinct = () => new Set(seen).size
  const owned = async () => (await client.describe(id)).owned.toString()
  await create(client, 50, id)
  await client.write(id, { codec: 'none', acks: -1 }, numbers(0, 1000, 50))
  const one = await client.join(id, id, (value) => seen.push(value))
  await eventually('the first member reads', () => seen.length > 0)
  let second = 0
  const two = await client.join(id, id, (value) => (second++, seen.push(value)))
  await eventually('two members share 50 partitions', async () => (await owned()) === '25,25')
  await client.write(id, { codec: 'none', acks: -1 }, numbers(1000, 1000, 50))
  await eventually('all 2000 records are seen', () => distinct() === 2000)
  // The first member may read a partition until it has heard that it is the other's.
  await eventually('the second member reads', async () => {
    if (second === 0) await client.write(id, { codec: 'none', acks: -1 }, numbers(1000, 50, 50))
    return second > 0
  })
  assert((await client.groups()).includes(id), 'the group is not listed')
  await one.close()
  await eventually('the second member owns everything', async () => (await owned()) === '50')
  await client.write(id, { codec: 'none', acks: -1 }, numbers(2000, 500, 50))
  await eventually('all 2500 records are seen', () => distinct() === 2500)
  await two.close()
  assert((await client.committed(id, id)) >= 2500, 'less is committed than was seen') // a retried write may double records
  seen.length = 0
  await client.write(id, { codec: 'none', acks: -1 }, numbers(2500, 100, 50))
  const three = await client.join(id, id, (value) => seen.push(value))
  await eventually('the group goes on', () => distinct() === 100)
  assert.equal(seen.length, 100)
  await three.close()
  await eventually('the group is empty', async () => (await client.describe(id)).state.toUpperCase() === 'EMPTY')
  await client.deleteGroup(id)
  assert(!(await client.groups()).includes(id), 'the group is still there')
}

async function manyTopics(client, id) {
  const topics = Array.from({ length: 200 }, (_, i) => `${id}-${i}`)
  await create(client, 2, ...topics)
  for (const [topic, count] of await client.partitions(topics)) assert.equal(count, 2, topic)
  await client.remove(topics)
  await eventually('the topics are gone', async () => (await client.partitions(topics.slice(0, 3))).size === 0)
}
