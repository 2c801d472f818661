"""Traps: what an ordinary or a hostile application does, and what must not come of it."""
