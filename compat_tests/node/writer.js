// Writes rising numbers with KafkaJS until SIGTERM, and tells of each as Apache Kafka's VerifiableProducer does.
//
// node writer.js HOST:PORT,... TOPIC PARTITIONS RECORDS_PER_S DELIVERY_TIMEOUT_S

import kafkajs from 'kafkajs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const MOST_IN_A_BATCH = 500
const SILENCE_MS = 5_000
const [addresses, topic, ...numbers] = process.argv.slice(2)
const [partitions, perSecond, deliveryTimeoutS] = numbers.map(Number)

const state = { stopped: false }
process.on('SIGTERM', () => (state.stopped = true))

const tell = (event) => process.stdout.write(`${JSON.stringify(event)}\n`)

// A broker that sleeps keeps its connections open, and KafkaJS would go on asking it after requests time out. One that is
// silent breaks: KafkaJS would end it, and take the end of the old connection for that of the next one.
const breaking = (socket) => socket.setTimeout(SILENCE_MS, () => socket.destroy(new Error('silent')))

const kafka = new kafkajs.Kafka({
  brokers: addresses.split(','), logLevel: kafkajs.logLevel.NOTHING,
  socketFactory: ({ host, port, onConnect }) => breaking(connect({ host, port }, onConnect)),
  retry: { initialRetryTime: 50, maxRetryTime: 500 },
})
// KafkaJS asks only brokers that the last metadata named. Asked just when the others were away, it would know none but the
// one that falls asleep next, and wait for that for as long as it sleeps.
const producer = kafka.producer({ idempotent: true, retry: { retries: Number.MAX_SAFE_INTEGER }, metadataMaxAge: 500 })

// Batches of one partition, one after the other. One that is refused ends them: KafkaJS gives its sequence numbers to the
// next batch, though it may be in the log; a broker could take that for the refused one and acknowledge what it does not write.
async function write(partition, begin) {
  for (let number = partition; !state.stopped; await sleep(10)) {
    const messages = []
    const due = ((Date.now() - begin) * perSecond) / 1000
    for (; number < due && messages.length < MOST_IN_A_BATCH; number += partitions) {
      messages.push({ value: String(number), partition })
    }
    if (messages.length > 0 && !(await send(partition, messages))) return
  }
}

async function send(partition, messages) {
  try {
    const answers = await producer.send({ topic, messages, acks: -1 })
    const { baseOffset } = answers.find((answer) => answer.partition === partition)
    messages.forEach(({ value }, index) => {
      const offset = baseOffset < 0 ? -1 : Number(baseOffset) + index
      tell({ name: 'producer_send_success', partition, offset, value })
    })
    return true
  } catch (error) {
    messages.forEach(({ value }) => tell({ name: 'producer_send_error', partition, value, message: String(error) }))
    return false
  }
}

async function giveUp() {
  while (!state.stopped) await sleep(100)
  await sleep(deliveryTimeoutS * 1000)
  tell({ name: 'producer_send_error', message: 'records were never answered' })
}

await producer.connect()
const begin = Date.now()
const writing = Array.from({ length: partitions }, (_, partition) => write(partition, begin))
await Promise.race([Promise.all(writing), giveUp()])
process.exit(0)
