"""A fix gives a function new keys. So there is none if another file speaks of the old ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from stampede_guard.audit import audit_source
from stampede_guard.audit.fixing.files import fixed

SALES = b"""from django.core.cache import cache


def sales(shop):
    known = cache.get("shop-sales:%d" % shop.id)
    if known is not None:
        return known
    found = count(shop)
    cache.set("shop-sales:%d" % shop.id, found, 60)
    return found
"""


DELETED = 'cache.delete("shop-sales:%d" % shop.id)\n'


@pytest.mark.parametrize(
    ("before", "other", "written", "refused"),
    [
        (SALES, 'cache.delete("shop-orders:%d" % shop.id)\n', b"@locked_cache", 0),
        (SALES, DELETED, b"with fill_lock", 0),
        (SALES + b"\n\nfill_lock = None\n", DELETED, b"", 1),
    ],
)
def test_a_key_that_another_file_names_stays(
    tmp_path: Path, before: bytes, other: str, written: bytes, refused: int
) -> None:
    path, second = tmp_path / "sales.py", tmp_path / "signals.py"
    path.write_bytes(before)
    second.write_text(other)
    wanted = {(finding.code, finding.function) for finding in audit_source(str(path), before).findings}
    made = fixed(str(path), before, wanted, unsafe=True, files=[str(path), str(second)])
    assert len(made.refused) == refused and (made.after == before) == bool(refused)
    assert written in made.after
    assert all("another file uses keys with 'shop-sales:'" in reason for *_key, reason in made.refused)
