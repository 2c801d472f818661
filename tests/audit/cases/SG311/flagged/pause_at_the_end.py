import asyncio
import time


async def harvest(stop, session):
    while not stop.is_set():
        try:
            if session is not None:
                if not await try_advisory_lock(session, 7):
                    logger.debug("another one runs")
                    continue
            await collect(session)
        except Exception:
            logger.exception("failed")
        try:
            await asyncio.wait_for(stop.wait(), timeout=60)
            break
        except asyncio.TimeoutError:
            pass


def work(lock):
    while True:
        taken = lock.acquire(blocking=False)
        if not taken:
            continue
        collect()
        time.sleep(60)
