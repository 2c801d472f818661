from functools import lru_cache


@app.get("/recent")
@lru_cache()
def recent():
    return apps.recent()


@app.post("/update")
def update():
    recent.cache_clear()
