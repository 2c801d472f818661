"""Two methods share a key. One looks it up through a helper, the other one logs in and stores."""

import json

import requests

from app.store import add_page_cache, get_page_cache

TOKEN_KEY = "shop_token"


class Shop:
    def client(self):
        token = self._load_cached_token()
        if token:
            return Client(token)
        return self._renewed()

    def _load_cached_token(self):
        found = get_page_cache(TOKEN_KEY)
        return json.loads(found) if found else None

    def _renewed(self):
        token = requests.post("https://shop.example/login").json()
        add_page_cache(TOKEN_KEY, json.dumps(token))
        return Client(token)
