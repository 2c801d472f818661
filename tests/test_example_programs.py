"""The two larger examples, run as their readers would: what they promise is what they count."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 200


async def output_of(module: str) -> str:
    """What `python -m MODULE` prints. It has to end well."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_four_workers_run_each_tick_four_times_before_and_once_after() -> None:
    output = await output_of("examples.scheduler_app")
    counted = dict(re.findall(r"^  (\w+)\.py .*?((?: \d)+)$", output, re.MULTILINE))
    assert {name: counts.split() for name, counts in counted.items()} == {
        "before": ["4"] * 3,
        "after": ["1"] * 3,
        "jobs": ["1"] * 3,
    }
    assert set(re.findall(r"^  slot +\d+  (\w+)", output, re.MULTILINE)) == {"completed"}


async def test_three_pods_keep_a_store_in_step_with_its_repositories_though_one_is_killed() -> None:
    output = await output_of("examples.repo_sync")
    rows = re.findall(r"^ (\d\d:\d\d:\d\d)  (\w+) +(\d+)  (pod-\d|-)", output, re.MULTILINE)
    assert rows
    slots = [slot for slot, *_ in rows]
    assert len(slots) == len(set(slots)), "no tick has two outcomes"
    assert "running" not in {outcome for _, outcome, *_ in rows}
    (killed,) = re.findall(r"(pod-\d) was killed", output)
    again = [pod for _, outcome, attempt, pod in rows if int(attempt) > 1 and outcome == "completed"]
    assert again
    assert killed not in again
    assert re.search(r"^\d+ ticks, each with one outcome: True; taken over: True$", output, re.MULTILINE)
    (points,) = re.findall(r"^(\d+) points, 0 twice, 0 missing$", output, re.MULTILINE)
    assert int(points) > 60
    assert output.rstrip().endswith(": shop/src/module_7.py")
