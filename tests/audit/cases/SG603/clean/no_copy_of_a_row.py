async def confirm(db, redis, user, code):
    if await redis.get(f"otp:{user.id}") != code:
        return False
    await redis.delete(f"otp:{user.id}")
    user.confirmed = True
    await db.commit()
    return True
