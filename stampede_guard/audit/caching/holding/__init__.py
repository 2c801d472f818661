"""Locks as objects of a library: who makes them, and who reads whether they were taken."""
