// Sends two messages in one batch with KafkaJS: "aged" with a time of eight days ago, "fresh" without one. Both have their value
// as their key.
//
// node aged.js HOST:PORT,... [TOPIC none|gzip fresh-first|aged-first]...

import kafkajs from 'kafkajs'

const EIGHT_DAYS_MS = 8 * 86_400_000
const [addresses, ...wanted] = process.argv.slice(2)

const kafka = new kafkajs.Kafka({ brokers: addresses.split(','), logLevel: kafkajs.logLevel.NOTHING })
const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
const aged = { key: 'aged', value: 'aged', timestamp: String(Date.now() - EIGHT_DAYS_MS), partition: 0 }
const fresh = { key: 'fresh', value: 'fresh', partition: 0 }

await producer.connect()
for (; wanted.length; wanted.splice(0, 3)) {
  const [topic, codec, order] = wanted
  await producer.send({
    topic, acks: -1, messages: order === 'aged-first' ? [aged, fresh] : [fresh, aged],
    compression: codec === 'gzip' ? kafkajs.CompressionTypes.GZIP : kafkajs.CompressionTypes.None,
  })
}
await producer.disconnect()
