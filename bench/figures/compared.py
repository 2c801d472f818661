"""The table of the README: what was measured, and what the documentation of each library says."""

from __future__ import annotations

from typing import Any, Final

from bench.http.results import Results as HttpResults
from bench.markdown import grid
from bench.peers.report import column_of
from bench.peers.results import Results as PeersResults

__all__ = ["compared"]

_PEERS: Final = ("ours", "cashews", "aiocache", "fastapi-cache2", "dogpile.cache")
_HISHEL: Final = "hishel, Redis"
_STATED: Final = (
    ("Can I cache whole responses by RFC 9111?", "**yes**", "no", "no", "in part", "no", "**yes**", "no"),
    ("Does it work without asyncio?", "**yes**", "no", "no", "no", "**yes**", "**yes**", "**yes** (.NET)"),
    (
        "Which stores?", "Redis, memory", "**also disk**", "**also Memcached**", "**also Memcached, DynamoDB**",
        "**also Memcached, files**", "**also SQLite**", "**any distributed cache**",
    ),
    ("Who has run it for years?", "nobody", *["**many**"] * 6),
)  # fmt: skip


def compared(peers: dict[str, Any], http: dict[str, Any]) -> str:
    found = PeersResults.from_json(peers)
    expiries = next((row.expiries for row in HttpResults.from_json(http).rows if row.name == _HISHEL), [])

    def row(question: str, scenario: str, column: str, *, hishel: str = "", unit: str = "") -> list[str]:
        figures = [peer.figure(scenario, column) if (peer := found.row(name)) else None for name in _PEERS]
        known = [figure for figure in figures if figure is not None]
        texts = [column_of(scenario, column).text(figure) for figure in figures]
        marked = [
            f"**{text}{unit}**" if figure == min(known) else f"{text}{unit if figure is not None else ''}"
            for figure, text in zip(figures, texts, strict=True)
        ]
        return [question, *marked, hishel, ""]

    titles = ["", *_PEERS, "hishel", "FusionCache"]
    rows = [
        row(
            "What happens when an entry expires? Computations, 8 processes x 50 callers",
            "cold", "computations", hishel=f"{max(expiries)} of 64" if expiries else "",
        ),
        row("Redis commands then", "cold", "commands"),
        row("When is a killed holder replaced? Seconds", "killed", "takeover"),
        row("How many others fail with a cancelled caller?", "cancelled", "harmed"),
        *map(list, _STATED),
    ]  # fmt: skip
    head, _, *lines = grid(titles, rows).splitlines()
    table = "\n".join([head, "|---" * len(titles) + "|", *lines])  # the README counts its words
    pages = "[bench/peers](bench/peers/README.md), [bench/http](bench/http/README.md)"
    return f"{table}\n\nAll: {pages}."
