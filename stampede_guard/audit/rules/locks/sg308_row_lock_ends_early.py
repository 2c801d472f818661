"""SG308: rows that nobody holds any more while the work on them is done."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.caching.holding.rowlocks import ended
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module

_MESSAGES = {
    "at once": "outside a transaction, FOR UPDATE holds its rows until the SELECT ends: another worker gets the same "
    "rows",
    "in the loop": "the first commit in the loop ends the locks of all rows: another worker gets the rows that are "
    "still to come",
}


def check(module: Module) -> Iterator[Violation]:
    for call, function, end in ended(module):
        yield Violation(node=call, message=_MESSAGES[end], function=owned_name(function))


_FOR_UPDATE = ((b"FOR", b"NO", b"KEY", b"UPDATE"), (b"for", b"no", b"key", b"update"))

RULE = Rule(
    code="SG308",
    name="row-lock-ends-early",
    summary="`FOR UPDATE` whose transaction ends before the work: outside a transaction, or by a commit in the loop",
    confidence="high",
    scope="fleet",
    hints=(
        (b"for_update", *(re.compile(rb"%b\s+(?:%b\s+%b\s+)?%b\b" % words) for words in _FOR_UPDATE)),
        (b"fetch", b".commit("),
    ),
    check=check,
    documentation=Documentation(
        what=(
            "asyncpg runs `SELECT ... FOR UPDATE` outside `conn.transaction()`. Or a loop goes through rows that "
            "`with_for_update()` locked, and commits in its body."
        ),
        why=(
            "A row lock lives as long as its transaction. asyncpg commits each statement outside a transaction, so "
            "`SKIP LOCKED` has nothing to skip. A commit in the loop ends the locks of the later rows, too. Two "
            "workers then send the same message or charge the same order."
        ),
        example=(
            "rows = query.with_for_update(skip_locked=True).limit(50).all()\nfor row in rows:\n    send(row)\n    "
            "row.sent = True\n    session.commit()"
        ),
        instead=(
            "while row := query.with_for_update(skip_locked=True).first():   # one transaction for each row\n    "
            "send(row)\n    row.sent = True\n    session.commit()\n\n"
            "# or mark all rows as taken and commit, before the loop"
        ),
        unless=(
            "One worker runs the code. A commit before the loop, after which the rows are marked, is not reported."
        ),
        sure="High: the statement, its connection and the commit are in one function.",
        fix="No automatic fix: only the program knows what must be in one transaction.",
    ),
)
