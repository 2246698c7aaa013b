// Makes, describes and deletes access rules by KafkaJS, and prints what it returns: node rights.js ADDRESS
// ADDRESS-OF-LOGINS PAUSE-MS. Each line begins with the number of its step.

import { setTimeout } from 'node:timers/promises'
import kafkajs from 'kafkajs'

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs
const [address, logins, pauseMs] = process.argv.slice(2)
let step = 0

async function connected(broker, sasl) {
  const admin = new kafkajs.Kafka({ brokers: [broker], sasl, logLevel: kafkajs.logLevel.NOTHING }).admin()
  await admin.connect()
  return admin
}

function say(value) {
  console.log(`${String(step).padStart(2, '0')} ${value}`)
}

async function use(method, argument) {
  await setTimeout(Number(pauseMs))
  step += 1
  try {
    const answer = await method(argument)
    for (const resource of answer.resources ?? [])
      for (const rule of resource.acls) say(JSON.stringify([resource.resourceType, resource.resourceName, resource.resourcePatternType, rule]))
    for (const result of answer.filterResponses ?? []) {
      say(JSON.stringify([result.errorCode, result.errorMessage]))
      for (const rule of result.matchingAcls) say(JSON.stringify(rule))
    }
    say(answer === true ? 'true' : Object.keys(answer))
  } catch (error) {
    say(`${error.name} ${error.type} ${error.message}`)
  }
}

const admin = await connected(address)
const user = await connected(logins, { mechanism: 'plain', username: 'ann', password: 'ann-secret' })
const rule = {
  resourceType: AclResourceTypes.TOPIC,
  resourceName: 'orders',
  resourcePatternType: ResourcePatternTypes.LITERAL,
  principal: 'User:ann',
  host: '*',
  operation: AclOperationTypes.READ,
  permissionType: AclPermissionTypes.ALLOW,
}
const denied = { ...rule, permissionType: AclPermissionTypes.DENY, resourcePatternType: ResourcePatternTypes.PREFIXED }
const every = {
  resourceType: AclResourceTypes.ANY,
  resourcePatternType: ResourcePatternTypes.ANY,
  operation: AclOperationTypes.ANY,
  permissionType: AclPermissionTypes.ANY,
}
const named = {
  ...every,
  resourceType: AclResourceTypes.TOPIC,
  resourceName: 'orders-eu',
  resourcePatternType: ResourcePatternTypes.MATCH,
}
await use(admin.createAcls, { acl: [rule, denied] })
await use(admin.createAcls, { acl: [{ ...rule, resourceName: '' }] })
await use(user.createAcls, { acl: [rule] })
await use(admin.describeAcls, every)
await use(user.describeAcls, every)
await use(admin.describeAcls, named)
await use(user.deleteAcls, { filters: [every] })
await use(admin.deleteAcls, { filters: [named, { ...named, resourceName: 'none' }] })
await use(admin.deleteAcls, { filters: [every] })
await use(admin.describeAcls, every)
process.exit()
