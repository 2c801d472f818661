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


@pytest.mark.parametrize(
    ("other", "refused"),
    [('cache.delete("shop-sales:%d" % shop.id)\n', 1), ('cache.delete("shop-orders:%d" % shop.id)\n', 0)],
)
def test_a_key_that_another_file_names_is_left_alone(tmp_path: Path, other: str, refused: int) -> None:
    path, second = tmp_path / "sales.py", tmp_path / "signals.py"
    path.write_bytes(SALES)
    second.write_text(other)
    wanted = {(finding.code, finding.function) for finding in audit_source(str(path), SALES).findings}
    made = fixed(str(path), SALES, wanted, unsafe=True, files=[str(path), str(second)])
    assert len(made.refused) == refused and (made.after == SALES) == bool(refused)
    assert all("another file uses keys with 'shop-sales:'" in reason for *_key, reason in made.refused)
