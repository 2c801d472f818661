"""How a lease is acquired and kept in one event loop."""
