@app.task(autoretry_for=(Exception,))
def send(order):
    if not redis.set(f"sent:{order}", 1, nx=True, ex=3600):
        return
    try:
        body = render(order)
        post(body)
    except Exception:
        redis.delete(f"sent:{order}")
        raise


@app.task(autoretry_for=(Exception,))
def send_and_mark(order):
    if redis.get(f"sent:{order}"):
        return
    body = render(order)
    post(body)
    redis.setex(f"sent:{order}", 3600, "1")
    logger.info("sent")


@app.task
def once(order):
    if not redis.set(f"sent:{order}", 1, nx=True, ex=3600):
        return
    body = render(order)
    post(body)


@app.task(autoretry_for=(Exception,))
def soon(order):
    if not redis.set(f"sent:{order}", 1, nx=True, ex=30):
        return
    body = render(order)
    post(body)


@app.task(bind=True)
def waits(self, order):
    if not redis.set(f"sent:{order}", 1, nx=True, ex=3600):
        raise self.retry(countdown=10)
    body = render(order)
    post(body)


@app.task(bind=True, autoretry_for=(Exception,))
def first_time_only(self, order):
    if self.request.retries == 0 and redis.get(f"sent:{order}"):
        return
    redis.setex(f"sent:{order}", 3600, "1")
    body = render(order)
    post(body)
