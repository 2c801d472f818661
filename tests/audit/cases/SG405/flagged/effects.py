from contextlib import asynccontextmanager


@asynccontextmanager
async def lifespan(app):
    await warm_cache()
    send_startup_message("up")
    yield
