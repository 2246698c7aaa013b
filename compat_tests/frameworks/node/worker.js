// Lines in capitals from a topic to another: `node worker.js LIBRARY`, told by the environment what to read and write.

import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const { BOOTSTRAP, SOURCE, SINK, GROUP } = process.env
const libraries = { 'node-rdkafka': callbacks, 'confluent-kafka-javascript': promises }

// node-rdkafka: librdkafka as it is, with events.
async function callbacks() {
  const Kafka = require('node-rdkafka')
  const producer = new Kafka.HighLevelProducer({ 'bootstrap.servers': BOOTSTRAP })
  const consumer = new Kafka.KafkaConsumer(
    { 'bootstrap.servers': BOOTSTRAP, 'group.id': GROUP, 'session.timeout.ms': 6000, 'enable.auto.commit': false },
    { 'auto.offset.reset': 'earliest' })
  producer.connect({}, () => consumer.connect())
  consumer.on('ready', () => {
    consumer.subscribe([SOURCE])
    consumer.consume()
  })
  consumer.on('data', (message) => {
    producer.produce(SINK, null, Buffer.from(message.value.toString().toUpperCase()), message.key, null, (error) => {
      if (error) throw error
      consumer.commitMessage(message)
    })
  })
  process.once('SIGTERM', () => consumer.disconnect(() => producer.disconnect(() => process.exit(0))))
}

// Confluent's: the API of KafkaJS.
async function promises() {
  const { Kafka } = require('@confluentinc/kafka-javascript').KafkaJS
  const kafka = new Kafka({ kafkaJS: { brokers: [BOOTSTRAP] } })
  const producer = kafka.producer()
  const consumer = kafka.consumer({ kafkaJS: { groupId: GROUP, fromBeginning: true, sessionTimeout: 6000, autoCommitInterval: 500 } })
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topic: SOURCE })
  await consumer.run({
    eachMessage: ({ message }) =>
      producer.send({ topic: SINK, messages: [{ key: message.key, value: message.value.toString().toUpperCase() }] }),
  })
  process.once('SIGTERM', async () => {
    await consumer.disconnect()
    await producer.disconnect()
    process.exit(0)
  })
}

await libraries[process.argv[2]]()
