import time


def above(lock):
    while True:
        time.sleep(60)
        if not lock.acquire(blocking=False):
            continue
        collect()


def in_the_branch(lock):
    while True:
        if not lock.acquire(blocking=False):
            time.sleep(1)
            continue
        collect()
        time.sleep(60)


def at_last(lock):
    while True:
        try:
            if not lock.acquire(blocking=False):
                continue
            collect()
        finally:
            time.sleep(60)


def waits_itself(lock):
    while True:
        if not lock.acquire(timeout=10):
            continue
        collect()
        time.sleep(60)


def of_each(rows):
    while True:
        for row in rows:
            if not try_lock(row):
                continue
            collect(row)
        time.sleep(60)


async def of_each_message(queue):
    while True:
        message = await queue.get()
        if not await try_lock(message):
            continue
        await collect(message)
        await asyncio.sleep(1)


def waits_for_the_lock(lock):
    while True:
        if not lock.acquire():
            continue
        collect()
        time.sleep(60)
