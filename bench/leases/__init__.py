"""Leases and jobs at scale: crowds of waiters, long histories, bursts of claims, fleets that do nothing."""
