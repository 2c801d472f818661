from shop.models import Event, db


async def due(pool):
    async with pool.acquire() as conn, conn.transaction():
        rows = await conn.fetch("SELECT * FROM messages FOR UPDATE SKIP LOCKED")
        await conn.execute("UPDATE messages SET taken = true WHERE id = ANY($1)", [row["id"] for row in rows])


async def claimed(pool):
    return await pool.fetch(
        "UPDATE messages SET taken = true WHERE id IN (SELECT id FROM messages FOR UPDATE SKIP LOCKED) RETURNING *"
    )


async def given(conn):
    return await conn.fetch("SELECT * FROM messages FOR UPDATE")


async def by_hand(pool):
    conn = await pool.acquire()
    await conn.execute("BEGIN")
    rows = await conn.fetch("SELECT * FROM messages FOR UPDATE")
    await conn.execute("COMMIT")
    return rows


def all_together():
    events = Event.query.with_for_update(skip_locked=True).all()
    for event in events:
        event.status = "done"
    db.session.commit()


def marked_first():
    events = Event.query.filter_by(status="queued").with_for_update(skip_locked=True).all()
    for event in events:
        event.status = "processing"
    db.session.commit()
    for event in events:
        handle(event)
        db.session.commit()


def only_one():
    events = Event.query.with_for_update(skip_locked=True).limit(1).all()
    for event in events:
        handle(event)
        db.session.commit()
        break


def locked_again():
    events = Event.query.with_for_update(skip_locked=True).all()
    for event in events:
        again = Event.query.filter_by(id=event.id).with_for_update(skip_locked=True).first()
        handle(again)
        db.session.commit()
