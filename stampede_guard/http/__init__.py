"""HTTP: what a shared cache may do (`spec`, pure functions), and the ASGI middleware that does it."""
