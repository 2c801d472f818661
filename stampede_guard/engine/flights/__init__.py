"""Flights: one computation of one key in one process, its callers, and how its outcome reaches them."""
