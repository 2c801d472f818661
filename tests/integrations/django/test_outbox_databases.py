"""The outbox of a site with several databases: each has a table of its own, in the transaction of its data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_rows_of_a_second_database_are_invalidated_and_delivered_from_there(
    tmp_path: Path, valkey_url: str, namespace: str
) -> None:
    shop = "tests.integrations.django.shop.two_databases"
    done = subprocess.run(
        [sys.executable, "-m", shop, str(tmp_path), valkey_url, namespace],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "during [0, 1]",
        "after [0, 0] 2",
        "left [0, 1] 2",
        "0 rows delivered",
        "1 rows delivered",
        "delivered [0, 0] 3",
        "refused 0 the database 'bare' has no table of the outbox, which is in INSTALLED_APPS: run `manage.py migrate "
        "--database=bare`, and keep `manage.py stampede_guard_outbox --database=bare` running",
    ]
