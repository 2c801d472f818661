from shop.worker_cache import WorkerCache


def summarize(name, arguments):
    worker_cache = WorkerCache()
    if worker_cache.single_task_is_running(name, arguments):
        summarize.delay(name, arguments)
        return
    worker_cache.lock_single_task(name, arguments, timeout=600)
    try:
        update(arguments)
    finally:
        worker_cache.release_single_task(name, arguments)
