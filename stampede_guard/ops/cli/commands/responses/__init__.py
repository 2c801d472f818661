"""Commands for the responses that the HTTP cache has stored."""
