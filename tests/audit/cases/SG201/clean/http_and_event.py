async def refresh(api_client, event):
    rows = await api_client.get("items")
    if not rows:
        rows = await rebuild()
    event.set()
    return rows
