from collections.abc import KeysView
from functools import cache, lru_cache

from PyQt6 import QtWidgets


class ListView(QtWidgets.QListView):
    @lru_cache(maxsize=10)
    def icon(self, name):
        return load_icon(name)


class DataView:
    @cache
    def column(self, name):
        return self.rows.column(name)


class Names(KeysView):
    @cache
    def sorted(self):
        return sorted(self)
