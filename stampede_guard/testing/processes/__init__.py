"""Herds of real processes, and the worker that each of them is."""
