// What the JavaScript members of groups share; ci/clients/member.py says what a member does and prints.

export const [HEARTBEAT_MS, METADATA_MS] = [500, 1000]

/** The wish, when the program was started as `BOOTSTRAP member ...`. */
export function wish() {
  const [, , , mode, topics, group, ...words] = process.argv
  if (mode !== 'member') return undefined
  const named = Object.fromEntries(words.map(w => [w.slice(0, w.indexOf('=')), w.slice(w.indexOf('=') + 1)]))
  return { topics: topics.split(','), group, ...named, session: Number(named.session ?? 6000) }
}

// Written at once where stdout is a pipe on Linux.
export const say = (...words) => process.stdout.write(`${words.join(' ')}\n`)

/** `held` maps a topic to its partitions. */
export function sayAssigned(held) {
  say('assigned', ...Object.entries(held).flatMap(([topic, all]) => all.map(p => `${topic}:${p}`)).sort())
}

/** Resolves when the member is to leave: when stdin ends. */
export function toLeave() {
  return new Promise(resolve => process.stdin.on('end', resolve).resume())
}
