"""Repositories that several pods keep in a vector store: each tick once, and nothing twice."""
