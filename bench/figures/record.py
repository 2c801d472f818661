"""What one benchmark found, on which commit, when, and how busy the machine was."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = ["RECORDS", "ROOT", "Record", "digest", "load_all"]

ROOT: Final = Path(__file__).resolve().parents[2]
RECORDS: Final = Path(__file__).resolve().parent / "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`load`: the lowest and highest load average of the run, None if nobody looked. `figures` is the benchmark's own
    JSON. `pictures`: SHA-256 of each picture that the run drew, by its path in the repository."""

    part: str
    commit: str
    date: str
    load: tuple[float, float] | None
    figures: dict[str, Any]
    pictures: dict[str, str] = field(default_factory=dict)

    @property
    def short_stamp(self) -> str:
        return f"Commit `{self.commit}`, {self.date}."

    @property
    def stamp(self) -> str:
        load = (
            "the load of the machine was not recorded"
            if self.load is None
            else f"load average {self.load[0]:.1f} to {self.load[1]:.1f} during the run"
        )
        return f"Commit `{self.commit}`, {self.date}; {load}."

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.part}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> Record:
        content = json.loads(path.read_text("utf-8"))
        content["load"] = tuple(content["load"]) if content["load"] is not None else None
        return cls(**content)


def load_all(folder: Path = RECORDS) -> dict[str, Record]:
    """By part."""
    return {path.stem: Record.read(path) for path in sorted(folder.glob("*.json"))}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
