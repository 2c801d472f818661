"""Keys: which calls are the same call.

A key is `name:tag:arguments`. The name is readable and trimmed. The tag is a digest of the full name, the version
and the shape of the result, so that old and new code in one fleet never share an entry. The arguments are readable
while short, and digests when long. Two calls have one key only if every parameter that is not in `unkeyed` is equal
and of the same type.
"""

from __future__ import annotations

from stampede_guard.values.keys.builder import LONGEST_KEY, KeyBuilder

__all__ = ["LONGEST_KEY", "KeyBuilder"]
