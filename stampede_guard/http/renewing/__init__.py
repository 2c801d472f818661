"""Answers of the application that renew or complete the stored response."""
