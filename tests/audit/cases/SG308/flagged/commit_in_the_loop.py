from sqlalchemy import select

from shop.models import Event, db


def process():
    events = Event.query.filter_by(status="queued").with_for_update(skip_locked=True).limit(50).all()
    if not events:
        return 0
    for event in events:
        event.status = "processing"
        db.session.commit()
        try:
            handle(event)
        except Exception:
            db.session.rollback()
            continue
        event.status = "done"
        db.session.commit()
    return len(events)


async def send(session):
    due = select(Event).where(Event.due).with_for_update(skip_locked=True)
    result = await session.execute(due)
    events = result.scalars().all()
    for event in events:
        await post(event)
        event.sent = True
        await session.commit()
