// @platformatic/kafka with its default settings. Its streams always join a group, so it reads by the
// Fetch of its consumer, which needs none. Commands as in ci/clients/adapter.py.
import { Admin, Consumer, Producer } from '@platformatic/kafka'
import { Cannot, load, ranges, save, serve, version, within } from './adapter.mjs'
import { HEARTBEAT_MS, METADATA_MS, say, sayAssigned, toLeave, wish } from './member.mjs'

const PATIENCE_S = 60
// Batches stay below Kafka's default `max.message.bytes`: it sends what it is handed as one.
const BATCH_BYTES = 900_000
const [EARLIEST, LATEST] = [-2n, -1n]

class Client {
  constructor(bootstrap) {
    this.base = { clientId: 'clients', bootstrapBrokers: [bootstrap] }
  }

  async version() {
    return [await version('@platformatic/kafka')]
  }

  async using(client, act) {
    try {
      return await within(PATIENCE_S, act(client))
    } finally {
      await client.close()
    }
  }

  async create(topic, partitions) {
    await this.using(new Admin(this.base), admin =>
      admin.createTopics({ topics: [topic], partitions: Number(partitions), replicas: 1 })
    )
  }

  async write(topic, codec, path) {
    const batches = [[]]
    let size = 0
    for (const r of await load(path)) {
      const bytes = (r.key?.length ?? 0) + (r.value?.length ?? 0) + 200
      if (size + bytes > BATCH_BYTES) {
        batches.push([])
        size = 0
      }
      size += bytes
      // A map from buffers keeps the order, and a name that comes twice: no two buffers are the same key.
      const message = { topic, partition: r.partition, timestamp: BigInt(r.timestamp), headers: new Map(r.headers) }
      if (r.key !== null) message.key = r.key
      if (r.value !== null) message.value = r.value
      batches.at(-1).push(message)
    }
    return this.using(new Producer(this.base), async producer => {
      const acknowledged = []
      for (const messages of batches.filter(b => b.length > 0)) {
        const { offsets } = await producer.send({ messages, compression: codec, acks: -1 })
        for (const { partition, offset } of offsets) {
          const count = messages.filter(m => m.partition === partition).length
          for (let i = 0; i < count; i++) acknowledged.push(`${partition} ${Number(offset) + i}`)
        }
      }
      return acknowledged
    })
  }

  consumer() {
    return new Consumer({ ...this.base, groupId: 'unused', maxWaitTime: 500 })
  }

  async fetch(consumer, topic, partition, offset) {
    consumer.topics.track(topic) // a stream would, and Fetch looks up only these
    const { topics } = await consumer.metadata({ topics: [topic] })
    const { id, partitions } = topics.get(topic)
    const asked = { partition, currentLeaderEpoch: -1, fetchOffset: BigInt(offset), lastFetchedEpoch: -1, partitionMaxBytes: 1 << 20 }
    const answer = await consumer.fetch({ node: partitions[partition].leader, topics: [{ topicId: id, partitions: [asked] }] })
    return (answer.responses[0]?.partitions[0]?.records ?? []).flatMap(batch =>
      batch.records.map(r => ({
        partition,
        offset: Number(batch.firstOffset) + r.offsetDelta,
        timestamp: batch.firstTimestamp + r.timestampDelta,
        key: r.key,
        value: r.value,
        headers: r.headers
      }))
    )
  }

  async read(topic, path, ...parts) {
    const got = await this.using(this.consumer(), async consumer => {
      const got = []
      for (const [partition, { first, end }] of ranges(parts)) {
        for (let next = first; next < end; ) {
          // A fetch begins with the batch that holds the offset, so records before it come too.
          const records = (await this.fetch(consumer, topic, partition, next)).filter(r => r.offset >= next && r.offset < end)
          got.push(...records)
          next += records.length
        }
      }
      return got
    })
    await save(path, got)
  }

  async listed(topic, partition, ...timestamps) {
    return this.using(this.consumer(), async consumer => {
      const offsets = []
      for (const timestamp of timestamps) {
        const all = await consumer.listOffsets({ topics: [topic], timestamp })
        offsets.push(all.get(topic)[Number(partition)])
      }
      return offsets
    })
  }

  async 'offset-for'(topic, partition, timestamp) {
    const [offset] = await this.listed(topic, partition, BigInt(timestamp))
    return [offset < 0n ? 'none' : offset]
  }

  async bounds(topic, partition) {
    return [(await this.listed(topic, partition, EARLIEST, LATEST)).join(' ')]
  }

  async 'out-of-range'(topic, partition, offset, where) {
    if (where !== 'none') throw new Cannot('a fetch without a group does not reset its offset')
    return this.using(this.consumer(), async consumer => {
      try {
        await this.fetch(consumer, topic, Number(partition), offset)
      } catch (why) {
        const names = [why, ...(why.errors ?? [])].map(e => e.apiId)
        if (names.includes('OFFSET_OUT_OF_RANGE')) return ['OFFSET_OUT_OF_RANGE']
        throw why
      }
      throw new Error('the offset was taken')
    })
  }

  async transactional(seconds) {
    const producer = new Producer({ ...this.base, idempotent: true, transactionalId: 't' })
    try {
      await within(Number(seconds), producer.beginTransaction())
    } catch (why) {
      if (why.message.startsWith('no answer')) throw why
      return [`${why.name}: ${why.message}`.replace(/\s+/g, ' ')]
    } finally {
      await producer.close()
    }
    return ['accepted']
  }
}

/** A member of a group. A stream ends with an error when a commit meets a rebalance; the next one goes on. */
async function join(base, { topics, group, instance, session }) {
  const consumer = new Consumer({
    ...base,
    groupId: group,
    ...(instance ? { groupInstanceId: instance } : {}),
    sessionTimeout: session,
    rebalanceTimeout: session,
    heartbeatInterval: HEARTBEAT_MS,
    metadataMaxAge: METADATA_MS,
    maxWaitTime: 200
  })
  consumer.on('error', why => console.error(why))
  consumer.on('consumer:group:join', ({ assignments }) => {
    sayAssigned(Object.fromEntries((assignments ?? []).map(({ topic, partitions }) => [topic, partitions])))
  })
  let stream
  let leaving = false
  toLeave().then(async () => {
    leaving = true
    await stream?.close()
  })
  while (!leaving) {
    try {
      stream = await consumer.consume({ topics, mode: 'committed', fallbackMode: 'earliest', autocommit: 200 })
      stream.on('autocommit', (why, offsets) => {
        if (why) console.error(why)
        else for (const { partition, offset } of offsets) say('committed', partition, offset)
      })
      for await (const message of stream) say(message.partition, message.offset, message.value)
    } catch (why) {
      console.error(why)
      await new Promise(resolve => setTimeout(resolve, 100))
    }
  }
  await consumer.close(true)
  process.exit(0)
}

const client = new Client(process.argv[2])
if (wish()) await join(client.base, wish())
else await serve(client)
