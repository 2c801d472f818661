"""Strawberry GraphQL on FastAPI."""
