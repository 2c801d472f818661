"""The ASGI middleware: a shared HTTP cache with the guard's engine behind it."""
