import asyncio
import time

import requests
from celery import shared_task


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
