import threading

lock = threading.Lock()


async def pages(read, kept):
    with lock:

        async def later():
            return [page async for page in read()]

        kept.append(later)
