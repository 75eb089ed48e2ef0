// kafkajs with its default settings, which writes and asks for offsets; its consumer always joins a
// group, so it reads nothing here. Commands as in ci/clients/adapter.py.
import zlib from 'node:zlib'
import { promisify } from 'node:util'
import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import Snappy from 'kafkajs-snappy'
import { Cannot, load, serve, version, within } from './adapter.mjs'

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

  async read() {
    throw new Cannot('the consumer of kafkajs always joins a group')
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

  async 'out-of-range'() {
    throw new Cannot('the consumer of kafkajs always joins a group')
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

await serve(new Client(process.argv[2]))
