"""The console's JSON answers as its description says, to what the description allows and to what it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = "20"
SEED = "1"
PROGRAM = "from schemathesis.cli import schemathesis; schemathesis()"
CONFIG = Path(__file__).with_name("schemathesis.toml")


def test_schemathesis_finds_nothing(site: str, tmp_path: Path) -> None:
    """With few examples and one seed. With others: `--max-examples` and `--seed` of schemathesis."""
    command = [sys.executable, "-c", PROGRAM, "--config-file", str(CONFIG), "--no-color", "run"]
    asked = ["--max-examples", EXAMPLES, "--seed", SEED, "--checks", "all", "--phases", "coverage,fuzzing"]
    done = subprocess.run(
        [*command, f"{site}api/openapi.json", *asked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert "8 selected / 8 total" in done.stdout
