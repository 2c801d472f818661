"""Memos of this process without I/O: a second computation costs some CPU, and no database sees a herd."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.source.model import Function, Module, position
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import path

_LOCAL = re.compile(
    r"(?:^|\.)(?:cachetools\.\w+|LRUCache|TTLCache|LFUCache|lru\.LRU|WeakValueDictionary|OrderedDict|dict|defaultdict)\(\)$"
)
# Calls that leave the process, or run a model.
_LEAVES = re.compile(
    r"execute|\.objects\b|\.query\b|fetch|scalar|session|crud|repo|\bdb\b|cursor|requests?\.|http|urlopen|client|api\b|"
    r"openai|llm|embed|predict|generat|complet|inference|load|open|read|download|connect|select|find|search|query|socket|"
    r"subprocess|request|get_\w+|list_\w+|compute|render|service",
    re.IGNORECASE,
)


def is_memo(module: Module, function: Function, read: Access, write: Access) -> bool:
    """Whether a dict or an LRU of this process keeps what pure code computes."""
    receiver = (
        read.call.func.value
        if isinstance(read.call, ast.Call) and isinstance(read.call.func, ast.Attribute)
        else None
    )
    if receiver is None:
        return False
    made = origin(module, receiver, function)
    if _LOCAL.search(made) is None and not _is_own_memo(module, made):
        return False
    between = (position(read.call), position(write.call))
    if any(between[0] < position(node) < between[1] for node in function.awaits):
        return False
    return not any(
        between[0] < position(call) < between[1] and _LEAVES.search(path(call.func))
        for call in function.calls
    )


def _is_own_memo(module: Module, made: str) -> bool:
    """Whether a class of this file keeps its values in an OrderedDict or a dict, and asks nobody else."""
    cls = next((cls for cls in module.classes if f"{cls.name}()" == made), None)
    if cls is None or cls.bases:
        return False
    kept = [found for (owner, _name), found in module.attributes.items() if owner == cls.name]
    dicts = any(
        _LOCAL.search(origin(module, value, where)) or isinstance(value, ast.Dict)
        for values in kept
        for value, where in values
    )
    own = [function for function in module.functions if function.cls is cls]
    leaves = any(
        function.is_async or any(_LEAVES.search(path(c.func)) for c in function.calls) for function in own
    )
    return dicts and not leaves
