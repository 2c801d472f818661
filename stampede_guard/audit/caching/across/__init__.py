"""Fills that more than one function, or more than one file, makes together."""
