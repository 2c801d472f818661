"""Modes: on, shadow, bypass, off; which one holds for a call, and the switches of a fleet."""
