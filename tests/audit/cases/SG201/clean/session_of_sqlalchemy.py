def buy(session, symbol, amount):
    row = session.get(Purchase, symbol)
    if row is None:
        row = Purchase(symbol, amount)
        session.add(row)
    session.commit()
    return row
