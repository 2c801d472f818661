"""One method looks for a token, the other one stores a session: two entries."""

import json

import requests

from app.store import add_page_cache, get_page_cache


class Shop:
    def client(self):
        token = self._load_cached_token()
        if token:
            return Client(token)
        return self._opened()

    def _load_cached_token(self):
        found = get_page_cache("shop_token")
        return json.loads(found) if found else None

    def _opened(self):
        session = requests.post("https://shop.example/session").json()
        add_page_cache("shop_session", json.dumps(session))
        return Client(session)
