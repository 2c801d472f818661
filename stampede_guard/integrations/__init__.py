"""Frameworks: what an application in FastAPI or Starlette gets beyond the guard itself."""
