@app.task(bind=True, autoretry_for=(Exception,), max_retries=3)
def send(self, order):
    if not redis.set(f"sent:{order}", 1, nx=True, px=60_000):
        return
    body = render(order)
    post(body)
