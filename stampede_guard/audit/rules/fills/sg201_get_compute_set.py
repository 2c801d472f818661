"""SG201: get, miss, compute, set by hand."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.caching import threaded
from stampede_guard.audit.caching.fills import Fill, fills, owned_name, what_is_cached
from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.rows import asks_for_one_row
from stampede_guard.audit.caching.judging.worth import level_of, level_of_fill
from stampede_guard.audit.finding import Confidence
from stampede_guard.audit.fixes.around import or_by_fill_lock
from stampede_guard.audit.fixes.handwritten import by_decorator
from stampede_guard.audit.prefilter import STORES, Text
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module


def check(module: Module) -> Iterator[Violation]:
    seen = set()
    for fill in fills(module):
        seen.add(fill.function)
        if fill.decorator is not None or fill.read.helper or fill.write.helper:
            continue
        yield Violation(
            node=fill.read.call,
            message=f"{what_is_cached(fill.function)} reads the cache, computes on a miss and stores the result "
            "with no lock: every caller that misses at the same time computes too",
            confidence=_sure(module, fill),
            level=level_of_fill(module, fill.function, fill.read, fill.write),
            function=owned_name(fill.function),
            cost=cost(fill.function.node),
        )
    for function, look in threaded.threaded_fills(module):
        if function not in seen:
            seen.add(function)
            yield Violation(
                node=look,
                message=f"{what_is_cached(function)} looks at what the process keeps, computes on a miss and stores "
                "the result: threads that miss at the same time compute too",
                confidence="medium",
                level=level_of(module, function),
                function=owned_name(function),
                cost=cost(function.node),
            )

    for function, look, holder in threaded.filled_in_steps(module):
        if function not in seen:
            yield Violation(
                node=look,
                message=f"{what_is_cached(function)} fills {holder} step by step: a thread that looks in between takes "
                "a half for the whole, and threads that find it empty fill it twice",
                confidence="medium",
                level=level_of(module, function),
                function=owned_name(function),
                cost=cost(function.node),
            )


def _sure(module: Module, fill: Fill) -> Confidence:
    if asks_for_one_row(module, fill.function, fill.read, fill.write):
        return "low"
    return "high" if fill.sure else "medium"


def _may_apply(text: Text) -> bool:
    if text.has_any(threaded.STEPS) and text.has_any(threaded.EMPTY):
        return True
    if text.traces.may_fill or text.traces.tables:
        return True
    return text.has_any(threaded.LOCKS_OR_CLOCKS) and text.has_any(threaded.STORES)


RULE = Rule(
    code="SG201",
    name="get-compute-set",
    summary="get, miss, compute, set by hand on one key, without a lock around it or a second check "
    "inside the lock",
    confidence="high",
    scope="process",
    hints=(STORES,),
    near=_may_apply,
    check=check,
    fix=or_by_fill_lock(by_decorator),
    fixes=("unsafe",),
    documentation=Documentation(
        what="A function reads a key, tests for a miss, computes, and stores under the same key. A second "
        "caller does not wait for the first one's result.",
        why="When the entry expires under load, every request that arrives during the computation also "
        "misses and also computes. The database gets the whole burst at once.",
        example='data = await redis.get(f"report:{id}")\nif data is None:\n    data = await load(id)\n'
        '    await redis.set(f"report:{id}", data, ex=300)',
        instead='data = await guard.get_or_compute(f"report:{id}", lambda: load(id), ttl=300)',
        unless="The computation is cheaper than a round trip to the cache, or there is one caller at a time "
        "(a job that is scheduled once).",
        sure="High if the object is known to be a cache; medium if only the key or a TTL suggests it. Low, and so not "
        "shown by default, if one query for one row is all that a miss costs (`Page.objects.get(id=id)`, "
        "`session.get(Page, id)`): it costs about as much as the round trip to the cache. Reviewers found such "
        "fills true but trivial. "
        "Counters, flags, read-modify-write and values that were passed in are left out. Medium also for a dict "
        "or a value of the process in a plain function, if threads use it under a lock that is free while they "
        "compute, or if it expires and a request or a query makes it; and for a cache of the module that is filled "
        "step by step after a test that it is empty. A table counts as a cache if its name or its model's name says "
        "so: a row is looked for, and made after a request. "
        "A warning if a miss is much work that many wait for, else information. These facts count for it: an "
        "aggregate, a join, a group or a count (2 points); a request to another service, a model, another program or a "
        "file of tables (2); a query or "
        "request in a loop (1); three queries for lists of rows (1); eight calls that do work (1), or twelve of its "
        "own (2 more); a name like statistics, total or ranking (1), but not "
        "for one plain COUNT; a view, a route, or a place for them by the name "
        "of the file (1). These count against it: only queries for one row (2); a key with a parameter that has no "
        "default (1), and one that names one thing, such as `order_id` (1 more), or a method of a row of a table (2), "
        "but none of them if another service is asked, because it is slow; "
        "a key with a user, or with what a POST sends (6); a key with a text that somebody typed, or a view that reads "
        "such a text (4); a page that browsers keep, too, by its decorator, unless another service is asked (2); "
        "a lifetime of a day (1); a place for tasks, "
        "commands, monitoring or administrators (3); a name, a docstring or a check that says that only "
        "administrators or one role ask (9). A helper that computes what it is given is a warning. "
        "From three points on it is a warning. Only what lies between the get and the set counts. Functions that it "
        "calls count, too, in the file and in files of the project that it imports, and methods of what an object "
        "keeps, but not those that are cached themselves.",
        fix="Unsafe: if the function consists of get, test, computation, set and return, and declares a result of "
        "Python's own types, it keeps its computation and gets `@locked_cache`. Not if it calls something on a hit, "
        "too, for example a check of permissions, or if a hit or a miss returns anything else than the stored "
        "value. If its key consists of plain text and of unchanged parameters, the other parameters become "
        "`unkeyed`. Otherwise, with a version in the text (`v3:`), and for methods, the key "
        "stays as it was: `key=lambda self, day: ...`. You must find "
        "other code that reads or deletes those "
        "keys. In other functions, and if a file of the run names, deletes or expires such keys, `with "
        "fill_lock(...)` and a second look enclose the computation and the set. Cache, key, lifetime and "
        "format stay; only callers of one process share. None for a table. None if the look may not run "
        "twice or is sometimes left out, if the cache belongs to one request, if a function decides "
        "whether to store, if a task or "
        "a pipeline stores, or if there is a lock already.",
    ),
)
