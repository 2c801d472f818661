"""The ASGI middleware: a shared HTTP cache on the guard's engine."""
