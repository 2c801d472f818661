from app import cache



def places(city, least):
    found = cache.get(f"places:{city}")
    if found is not None:
        rows = [row for row in found if row.rating >= least]
        return rows
    rows = load(city)
    cache.set(f"places:{city}", rows, 60)
    return [row for row in rows if row.rating >= least]
