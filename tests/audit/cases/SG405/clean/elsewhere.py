async def deploy(app):
    await warm_cache()
    send_startup_message("up")
