// The loop that each JavaScript client program runs, and the records in their text form: the same as
// ci/clients/adapter.py and records.py, which describe both.
import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

/** The client has no such function: reported as a skip by name, not as a failure. */
export class Cannot extends Error {}

/** The version of an installed package. Its package.json may not be exported, so it is read as a file. */
export async function version(name) {
  const entry = createRequire(import.meta.url).resolve(name)
  const folder = entry.slice(0, entry.lastIndexOf(`/node_modules/${name}/`) + `/node_modules/${name}/`.length)
  return JSON.parse(await readFile(`${folder}package.json`, 'utf8')).version
}

/** Answers commands with the methods of `client` until stdin ends. */
export async function serve(client) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, ...words] = line.trim().split(/\s+/)
    let answer
    try {
      answer = [...((await client[command](...words)) ?? []), 'done']
    } catch (why) {
      const text = `${why.name}: ${why.message} ${why.errors?.map(e => e.message) ?? ''}`.replace(/\s+/g, ' ')
      if (!(why instanceof Cannot)) console.error(why)
      answer = [why instanceof Cannot ? `cannot ${why.message}` : `failed ${text.slice(0, 300)}`]
    }
    process.stdout.write(answer.map(l => `${l}\n`).join(''))
  }
  process.exit(0)
}

/** An error after this many seconds without an answer. */
export function within(seconds, promise) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error(`no answer in ${seconds} s`)), seconds * 1000).unref())
  return Promise.race([promise, late])
}

const bytes = text => (text === '~' ? null : Buffer.from(text.slice(1), 'hex'))
const text = data => (data == null ? '~' : `x${Buffer.from(data).toString('hex')}`)

export async function load(path) {
  const lines = (await readFile(path, 'ascii')).trimEnd().split('\n')
  return lines.map(line => {
    const [partition, offset, timestamp, key, value, headers] = line.split(' ')
    return {
      partition: Number(partition),
      offset: Number(offset),
      timestamp,
      key: bytes(key),
      value: bytes(value),
      headers: headers === '-' ? [] : headers.split(',').map(h => h.split('=').map(bytes))
    }
  })
}

export async function save(path, records) {
  const lines = records.map(r => {
    const headers = r.headers.map(([name, value]) => `${text(name)}=${text(value)}`).join(',') || '-'
    return `${r.partition} ${r.offset} ${r.timestamp} ${text(r.key)} ${text(r.value)} ${headers}\n`
  })
  await writeFile(path, lines.join(''))
}

/** `P:FIRST:END` as a map from partition to its range of offsets. */
export function ranges(parts) {
  const all = parts.map(p => p.split(':').map(Number)).filter(([, first, end]) => first < end)
  return new Map(all.map(([partition, first, end]) => [partition, { first, end }]))
}
