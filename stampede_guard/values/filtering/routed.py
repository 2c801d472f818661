"""The codec of a function that is the endpoint of a known route: a hit gives the JSON that the route would give.

`guard.install(app)` makes the routes known. Keys do not depend on them: a process that knows no routes, such as a
worker that only invalidates, uses the same entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stampede_guard.errors import UnsupportedValue
from stampede_guard.values.annotations import unwrap
from stampede_guard.values.filtering.filter import Filter

__all__ = ["ResponseModels", "Routed"]

ResponseModels = Callable[[], tuple[Any, ...]]
"""The response models of the routes of one function: None for a route without one. Empty if no route is known."""


class Routed:
    """Around the codec of the return annotation, which decides the bytes. `Any` stands for no annotation."""

    def __init__(self, inner: Any, annotation: Any, models: ResponseModels) -> None:
        self.inner = inner
        self.fingerprint: str = inner.fingerprint
        self.shareable: bool | None = inner.shareable
        self.decode: Callable[[bytes], Any] = inner.decode
        self._annotation = None if unwrap(annotation) in (Any, object) else annotation
        self._models = models
        self._known: tuple[Any, ...] = ()
        self._shown: list[Filter] = []
        self._declared: Filter | None = None

    def encode(self, value: Any) -> bytes:
        """Raises `UnsupportedValue`."""
        if not self._look():
            data: bytes = self.inner.encode(value)
            return data
        refused: UnsupportedValue | None = None
        if self._annotation is not None or self._declared is None:
            try:
                data = self.inner.encode(value)
                if self._gives(value, data):
                    return data
            except UnsupportedValue as error:
                refused = error
        for candidate in self._declared.of(value).candidates() if self._declared is not None else ():
            try:
                data = self.inner.encode(candidate)
                if self._gives(value, data):
                    return data
            except UnsupportedValue as error:
                refused = refused or error
        if self._annotation is None and self._declared is not None:
            data = self.inner.encode(value)
            if self._gives(value, data):
                return data
        raise refused or UnsupportedValue(
            f"a route answers this {type(value).__name__} with a response model that needs more than the return "
            f"annotation of the function declares: annotate what the response model needs"
        )

    def settled(self, value: Any) -> Any:
        if self._look() and self._declared is not None:
            return self._declared.of(value).settled()
        return self.inner.settled(value) if hasattr(self.inner, "settled") else value

    def _look(self) -> bool:
        """Whether a route is known."""
        models = self._models()
        if models != self._known:
            self._known = models
            self._shown = [made for model in models if (made := _filter(model)) is not None]
            declared = self._annotation
            if declared is None and len(models) == 1:
                declared = models[0]
            self._declared = _filter(declared) if declared is not None else None
        return bool(models)

    def _gives(self, value: Any, data: bytes) -> bool:
        back = self.inner.decode(data)
        return all(shown.of(value).gives(back) for shown in self._shown)


def _filter(model: Any) -> Filter | None:
    """None for a type that pydantic cannot describe: FastAPI has no such response model."""
    try:
        return Filter(Any if model is None else model)
    except Exception:
        return None
