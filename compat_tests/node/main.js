// Drives a broker with the Kafka clients that Node programs use, each through the same story.
//
// node main.js HOST:PORT [kafkajs|platformatic]... exits with 1 and says what failed.

import { newKafkajs } from './kafkajs.js'
import { newPlatformatic } from './platformatic.js'
import { chapters } from './story.js'

const libraries = { kafkajs: newKafkajs, platformatic: newPlatformatic }

async function run(name, address) {
  let step = 'connect'
  try {
    const client = await libraries[name](address)
    for (const [title, tell] of chapters) {
      step = title
      const began = Date.now()
      await tell(client, `${name}-${process.pid}-${began}`)
      console.log(`${name}: ${step}: ${Date.now() - began} ms`)
    }
    await client.close()
    return true
  } catch (error) {
    console.error(`${name}: ${step}: ${error.stack}`)
    for (const cause of [error.cause, ...(error.errors ?? [])]) if (cause) console.error(cause)
    return false
  }
}

const [address, ...names] = process.argv.slice(2)
if (!address) {
  console.error('usage: node main.js HOST:PORT [LIBRARY]...')
  process.exit(2)
}
const outcomes = await Promise.all((names.length ? names : Object.keys(libraries)).map((name) => run(name, address)))
process.exit(outcomes.every(Boolean) ? 0 : 1)
