import redis.asyncio

client = redis.asyncio.Redis()


async def counts(db, teams):
    found, missing = {}, []
    for team, known in zip(teams, await client.mget([f"members:{team}" for team in teams])):
        if known is None:
            missing.append(team)
        else:
            found[team] = int(known)
    if missing:
        rows = dict(await db.fetch("SELECT team, count(*) FROM members WHERE team = ANY($1) GROUP BY team", missing))
        for team in missing:
            found[team] = rows[team]
            await client.setex(f"members:{team}", 300, str(rows[team]))
    return found
