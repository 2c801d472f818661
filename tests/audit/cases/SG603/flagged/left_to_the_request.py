from flask import g
from sqlalchemy.orm import Session

from app import cache
from app.feeds import front


@app.route("/block/<int:user>", methods=["POST"])
def block(user, viewer):
    g.db.add(Block(user_id=viewer.id, target_id=user))
    cache.delete_memoized(front, viewer)
    return "", 204


async def rename(session: Session, user, name):
    user.name = name
    session.add(user)
    await session.flush()
    await cache.delete(f"user:{user.id}")
