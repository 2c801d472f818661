"""Cases that the public suite lacks: what many requests at once do to a cache. `python -m bench.http.herds`."""
