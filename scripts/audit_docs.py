"""Writes the rules into docs/audit.md, behind its hand-written part: `python -m scripts.audit_docs`."""

from __future__ import annotations

from pathlib import Path

from stampede_guard.audit.reports.explain import pages, table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "audit.md"
MARK = "<!-- rules: written by scripts/audit_docs.py -->\n"


def main() -> None:
    before = PAGE.read_text("utf-8").partition(MARK)[0]
    PAGE.write_text(f"{before}{MARK}\n{table()}\n{pages()}", "utf-8")


if __name__ == "__main__":
    main()
