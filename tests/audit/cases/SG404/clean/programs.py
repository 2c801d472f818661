import asyncio
import time

import requests
from celery import shared_task


def start(queue):
    queue.enqueue(scan, 1)


async def scan(platform):
    async def one():
        await look(platform)

    group.start_soon(one)


async def look(platform):
    requests.get("https://example.org")


@shared_task
async def nightly():
    requests.get("https://example.org")
    await step()


async def step():
    time.sleep(1)


async def main():
    await once()


async def once():
    requests.get("https://example.org")


if __name__ == "__main__":
    asyncio.run(main())
