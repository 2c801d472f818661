import threading

lock = threading.Lock()


async def pages(read):
    with lock:
        return [page async for page in read()]
