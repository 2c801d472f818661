from sqlalchemy.orm import Session

from app import cache
from app.orders import committed, saved


def by_a_callee(session: Session, order):
    session.add(order)
    saved(session, order)
    cache.delete(f"order:{order.id}")


def by_a_block(order):
    with Session.begin() as session:
        session.add(order)
    cache.delete(f"order:{order.id}")


def by_itself(session: Session, order):
    session.add(order)
    session.commit()
    cache.delete(f"order:{order.id}")


@committed
def by_the_decorator(session: Session, order):
    session.add(order)
    cache.delete(f"order:{order.id}")


def nothing_changed(session: Session, order):
    found = session.get(Order, order)
    cache.delete(f"order:{order.id}")
    return found
