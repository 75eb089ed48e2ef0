// kafkajs with its default settings. Its consumer always joins a group, so each reading is a group of its
// own, of one member that seeks. Commands as in ci/clients/adapter.py.
import zlib from 'node:zlib'
import { promisify } from 'node:util'
import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import Snappy from 'kafkajs-snappy'
import { Cannot, load, ranges, save, serve, version, within } from './adapter.mjs'
import { HEARTBEAT_MS, METADATA_MS, say, sayAssigned, toLeave, wish } from './member.mjs'

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}
// kafkajs brings gzip only, and has a registry for the others. kafkajs-snappy is what its manual names; the
// packages that it names for LZ4 and zstd compile native code against headers from elsewhere.
CompressionCodecs[CompressionTypes.Snappy] = Snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => Buffer.from(lz4Compress(encoder.buffer)),
  decompress: async data => Buffer.from(lz4Decompress(data))
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: encoder => promisify(zlib.zstdCompress)(encoder.buffer),
  decompress: promisify(zlib.zstdDecompress)
})

// Batches stay below Kafka's default `max.message.bytes`: kafkajs sends what it is handed as one.
const BATCH_BYTES = 900_000
const PATIENCE_S = 60

class Client {
  constructor(bootstrap) {
    this.kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR, logCreator: () => e => console.error(e) })
  }

  async version() {
    return [await version('kafkajs')]
  }

  async admin(act) {
    const admin = this.kafka.admin()
    await admin.connect()
    try {
      return await act(admin)
    } finally {
      await admin.disconnect()
    }
  }

  async create(topic, partitions) {
    await this.admin(admin => admin.createTopics({ topics: [{ topic, numPartitions: Number(partitions) }] }))
  }

  async write(topic, codec, path) {
    const batches = [[]]
    let size = 0
    for (const r of await load(path)) {
      const headers = {}
      for (const [name, value] of r.headers) (headers[name.toString()] ??= []).push(value)
      const bytes = (r.key?.length ?? 0) + (r.value?.length ?? 0) + 200
      if (size + bytes > BATCH_BYTES) {
        batches.push([])
        size = 0
      }
      size += bytes
      batches.at(-1).push({ key: r.key, value: r.value, partition: r.partition, timestamp: r.timestamp, headers })
    }
    const producer = this.kafka.producer()
    await producer.connect()
    const acknowledged = []
    for (const messages of batches.filter(b => b.length > 0)) {
      const answers = await producer.send({ topic, compression: CODECS[codec], messages })
      for (const { partition, baseOffset } of answers) {
        const count = messages.filter(m => m.partition === partition).length
        for (let i = 0; i < count; i++) acknowledged.push(`${partition} ${Number(baseOffset) + i}`)
      }
    }
    await producer.disconnect()
    return acknowledged
  }

  /** A group of its own from the start of the topic, or from where `seek` says; `take` gives true at the end. */
  async consume(topic, places, take) {
    const consumer = this.kafka.consumer({ groupId: `reader-${process.pid}-${Date.now()}`, maxWaitTimeInMs: 100 })
    await consumer.connect()
    try {
      await consumer.subscribe({ topics: [topic], fromBeginning: true })
      const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
      const ended = new Promise((resolve, reject) => {
        consumer.on(consumer.events.CRASH, event => reject(event.payload.error))
        const eachMessage = async ({ partition, message }) => {
          if (take(partition, message)) resolve()
        }
        consumer.run({ autoCommit: false, eachMessage }).catch(reject)
      })
      const sought = joined.then(({ payload }) => {
        for (const partition of payload.memberAssignment[topic]) {
          if (places.has(partition)) consumer.seek({ topic, partition, offset: String(places.get(partition)) })
          else consumer.pause([{ topic, partitions: [partition] }])
        }
      })
      await within(PATIENCE_S, Promise.all([sought, ended]))
    } finally {
      await consumer.disconnect()
    }
  }

  async read(topic, path, ...parts) {
    const [got, left] = [[], ranges(parts)]
    await this.consume(topic, new Map([...left].map(([p, { first }]) => [p, first])), (partition, m) => {
      const range = left.get(partition)
      const offset = Number(m.offset)
      // What was read ahead of the seek comes too.
      if (range && offset >= range.first && offset < range.end) {
        const headers = Object.entries(m.headers ?? {}).flatMap(([n, v]) => (Array.isArray(v) ? v : [v]).map(one => [Buffer.from(n), one]))
        got.push({ partition, offset, timestamp: m.timestamp, key: m.key, value: m.value, headers })
        if (offset + 1 === range.end) left.delete(partition)
      }
      return left.size === 0
    })
    await save(path, got)
  }

  async 'offset-for'(topic, partition, timestamp) {
    const all = await this.admin(admin => admin.fetchTopicOffsetsByTimestamp(topic, Number(timestamp)))
    return [all.find(p => p.partition === Number(partition)).offset]
  }

  async bounds(topic, partition) {
    const all = await this.admin(admin => admin.fetchTopicOffsets(topic))
    const found = all.find(p => p.partition === Number(partition))
    return [`${found.low} ${found.high}`]
  }

  async 'out-of-range'(topic, partition, offset, where) {
    if (where !== 'earliest') throw new Cannot('kafkajs always resets an offset, and does not tell its position')
    let first
    await this.consume(topic, new Map([[Number(partition), offset]]), (p, message) => {
      if (p === Number(partition)) first ??= message.offset
      return first !== undefined
    })
    return [first]
  }

  async transactional(seconds) {
    const producer = this.kafka.producer({ transactionalId: 't', retry: { retries: 2 } })
    try {
      await producer.connect()
      await within(Number(seconds), producer.transaction())
    } catch (why) {
      if (why.message.startsWith('no answer')) throw why
      return [`${why.name}: ${why.message}`]
    } finally {
      await producer.disconnect()
    }
    return ['accepted']
  }
}

/** A member of a group: kafkajs commits after each batch, and tells when it has. */
async function join(kafka, { topics, group, session }) {
  const consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: session,
    rebalanceTimeout: session,
    heartbeatInterval: HEARTBEAT_MS,
    metadataMaxAge: METADATA_MS,
    maxWaitTimeInMs: 200
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => sayAssigned(payload.memberAssignment))
  consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => {
    for (const { partitions } of payload.topics) for (const { partition, offset } of partitions) say('committed', partition, offset)
  })
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({ eachMessage: async ({ partition, message }) => say(partition, message.offset, message.value) })
  await toLeave()
  await consumer.disconnect()
  process.exit(0)
}

const client = new Client(process.argv[2])
if (wish()) await join(client.kafka, wish())
else await serve(client)
