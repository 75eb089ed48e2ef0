"""Passes TCP connections on, as a port forward of a container or a NAT does: `forward.py LISTEN TO` (HOST:PORT each).

Prints a line for each connection, so that a test can tell that clients came this way.
"""

import asyncio
import sys


def address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


async def pipe(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def main(listen: str, to: str):
    async def accepted(reader, writer):
        print("passed on", flush=True)
        there = await asyncio.open_connection(*address(to))
        await asyncio.gather(pipe(reader, there[1]), pipe(there[0], writer))

    server = await asyncio.start_server(accepted, *address(listen))
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
