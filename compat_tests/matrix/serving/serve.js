// The line protocol for client programs in Node: a request in JSON a line, an answer a line. See serve.py.

import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

export const PATIENCE_MS = 90_000

const bytes = (text) => (text === null ? null : Buffer.from(text, 'base64'))
const text = (data) => (data === null || data === undefined ? null : Buffer.from(data).toString('base64'))

// A record of a request: Buffers, headers as pairs.
const fromJson = (one) => ({
  ...one, key: bytes(one.key), value: bytes(one.value), headers: one.headers.map(([name, value]) => [name, bytes(value)]),
})

// A record for an answer.
export const toJson = ({ partition, key, value, headers, timestamp, offset }) => ({
  partition, key: text(key), value: text(value), headers: headers.map(([name, value]) => [String(name), text(value)]),
  timestamp: Number(timestamp), offset: Number(offset),
})

// Headers as an object, whose values are lists where a name comes twice, from pairs; and back.
export function toObject(pairs) {
  const found = {}
  for (const [name, value] of pairs) found[name] = name in found ? [found[name], value].flat() : value
  return found
}
export const toPairs = (object) =>
  Object.entries(object ?? {}).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((one) => [name, one]))

// Writes all records at once, or each by itself with pauses between.
export async function inTurn({ records, pause_ms: pause }, write) {
  if (!pause) return void (await write(records))
  for (const one of records) {
    await write([one])
    await sleep(pause)
  }
}

// Resolves when the list is long enough; an error that came meanwhile is thrown.
export async function enough(found, count, failed = () => undefined) {
  const deadline = Date.now() + PATIENCE_MS
  while (found.length < count) {
    if (failed()) throw failed()
    if (Date.now() > deadline) throw new Error(`${found.length} of ${count} records came`)
    await sleep(10)
  }
}

// Calls about members of groups; `join` starts one and gives a function that lets it leave.
export function groupCalls(join) {
  const members = new Map()
  return {
    async join(request) {
      const seen = []
      members.set(request.member, { seen, close: await join(request, (value) => seen.push(value)) })
    },
    seen: ({ member }) => members.get(member).seen,
    async leave({ member }) {
      const { seen, close } = members.get(member)
      await close()
      return seen
    },
  }
}

// Answers requests until there are no more. `codeOf` is Kafka's code of an error, or null.
export async function serve(calls, codeOf) {
  process.on('unhandledRejection', (error) => console.error(error))
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line)
    if (request.records) request.records = request.records.map(fromJson)
    let answer
    try {
      answer = { ok: (await calls[request.do](request)) ?? null }
    } catch (error) {
      answer = { error: String(error.message ?? error), code: codeOf(error) ?? null }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  process.exit(0)
}
