"""The value that everything here reads: about 200 bytes as JSON, and a dictionary, so that each caller gets its own."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["VALUE", "VALUE_AS_JSON"]

VALUE: dict[str, Any] = {
    "category": "books",
    "count": 117_204,
    "good": 93_377,
    "average": 79.44,
    "updated": "2025-11-03T08:15:27Z",
    "labels": ["new", "used"],
    "note": "quality_score of 80 and above counts as good",
    "complete": True,
    "next": None,
}
VALUE_AS_JSON = json.dumps(VALUE).encode()
