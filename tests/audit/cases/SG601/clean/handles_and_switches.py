from app import cache



def orders(day: str, session, loader, force=False, timeout=5, user: User = Depends(signed_in), db=Depends(get_db)):
    found = None if force else cache.get(f"orders:{day}:{user.id}")
    if found is None:
        found = loader(db, session, day, timeout=timeout)
        cache.set(f"orders:{day}:{user.id}", found, 60)
    return found
