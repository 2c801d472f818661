async def rename(db, redis, user_id, name):
    await db.execute(rename_of(user_id, name))
    await redis.delete(f"user:{user_id}")
    await db.commit()
