// Makes a topic, writes a record and reads it in a group: node secured.js WAY TOPIC, where WAY is the JSON of
// secured_clients.Way. Says "done", or "refused" if the login is.

import { readFileSync } from 'node:fs'
import kafkajs from 'kafkajs'

const [json, topic] = process.argv.slice(2)
const way = JSON.parse(json)
const pem = readFileSync(way.certificate, 'utf8')
const kafka = new kafkajs.Kafka({
  brokers: [way.address],
  connectionTimeout: 30000,
  authenticationTimeout: 30000,
  logLevel: kafkajs.logLevel.NOTHING,
  ssl: way.protocol.endsWith('SSL') ? { ca: readFileSync(way.ca, 'utf8'), key: pem, cert: pem } : undefined,
  sasl: way.protocol.startsWith('SASL')
    ? {
        mechanism: way.mechanism.toLowerCase(),
        username: 'ann',
        password: way.password,
        oauthBearerProvider: async () => ({ value: way.password }),
      }
    : undefined,
})

async function use() {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
  await admin.disconnect()
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'value' }] })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: topic })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const value = await new Promise((resolve) =>
    consumer.run({ eachMessage: async ({ message }) => resolve(String(message.value)) }),
  )
  await consumer.disconnect()
  if (value !== 'value') throw new Error(`read ${value}`)
}

try {
  await use()
  console.log('done')
} catch (error) {
  if (error.name !== 'KafkaJSSASLAuthenticationError') throw error
  console.log('refused')
}
process.exit()
