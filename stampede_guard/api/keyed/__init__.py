"""Keys that a program gives itself: `get_or_compute`, `single`, `get`, `set`."""
