@app.task(bind=True, autoretry_for=(Exception,), max_retries=3)
def send(self, order):
    if not redis.set(f"sent:{order}", 1, nx=True, ex=3600):
        return
    body = render(order)
    post(body)


@app.task(bind=True, max_retries=3)
def register(self, number, key=None):
    try:
        if key and redis_client:
            cache_key = f"done:{key}"
            if redis_client.get(cache_key):
                logger.info("already done")
                return {"status": "skipped"}
            redis_client.setex(cache_key, 3600, "1")
    except ImportError:
        logger.warning("no redis")
    try:
        row = load(number)
        confirm(row)
    except Error as error:
        raise self.retry(exc=error, countdown=60 * 2**self.request.retries)
