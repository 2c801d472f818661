from cashews import Cache

kept = Cache()
kept.setup("redis://localhost")


@kept(ttl="1m")
async def boards(team: int) -> list[str]:
    return await read_boards(team)
