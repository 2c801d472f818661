"""A file that was not audited is named in every format. Otherwise its silence looks like a clean bill."""

from __future__ import annotations

import pytest

from stampede_guard.audit.engine import AuditResult
from stampede_guard.audit.finding import SkippedFile
from stampede_guard.audit.reports import FORMATS


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_names_a_skipped_file(name: str) -> None:
    skipped = SkippedFile(path="shop/newer.py", reason="this Python cannot parse it", broken=True)
    said = FORMATS[name](AuditResult(files=1, skipped=[skipped]))
    assert "shop/newer.py" in said and "cannot parse it" in said
