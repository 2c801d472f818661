"""Responses that are stored in pieces: above `max_body_bytes`, up to `max_pieces_bytes`, with a Content-Length."""
