"""Parts of one body, stored together (RFC 9111, 3.3 and 3.4)."""
