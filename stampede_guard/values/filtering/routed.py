"""The codec of a function that is the endpoint of a known route: a hit gives the JSON that the route would give.

`guard.install(app)` makes the routes known. Keys do not depend on them: a process that knows no routes, such as a
worker that only invalidates, uses the same entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from stampede_guard.errors import UnsupportedValue
from stampede_guard.values.annotations import unwrap
from stampede_guard.values.codec.typed import PydanticCodec
from stampede_guard.values.filtering.filter import Filter

__all__ = ["ResponseModels", "Routed"]

ResponseModels = Callable[[], tuple[Any, ...]]
"""The response models of the routes of one function: None for a route without one. Empty if no route is known."""


class Routed:
    """Around the codec of the return annotation, which decides the bytes. `Any` stands for no annotation."""

    def __init__(self, inner: Any, annotation: Any, models: ResponseModels, *, undescribed: str = "") -> None:
        """`undescribed`: why the annotation says nothing about the values. Then they are stored as without one."""
        self.inner = inner
        self.fingerprint: str = inner.fingerprint
        self.shareable: bool | None = inner.shareable
        self.decode: Callable[[bytes], Any] = inner.decode
        self._annotation = None if unwrap(annotation) in (Any, object) else annotation
        self._models = models
        self._undescribed = undescribed
        self._filters_itself = isinstance(inner, PydanticCodec)
        self._known = _Known((), (), None)

    def encode(self, value: Any) -> bytes:
        """Raises `UnsupportedValue`."""
        try:
            return self._encoded(value)
        except UnsupportedValue as error:
            if not self._undescribed:
                raise
            raise UnsupportedValue(
                f"{self._undescribed}; or, for an endpoint, give its route a response_model=, and call "
                f"guard.install(app)"
            ) from error

    def _encoded(self, value: Any) -> bytes:
        known = self._look()
        if not known.models:
            data: bytes = self.inner.encode(value)
            return data
        refused: UnsupportedValue | None = None
        for candidate in self._candidates(value, known):
            try:
                data = self.inner.encode(candidate)
                back = self.inner.decode(data) if known.shown else None
                if all(shown.of(value).gives(back) for shown in known.shown):
                    return data
            except UnsupportedValue as error:
                refused = refused or error
        raise refused or UnsupportedValue(
            f"a route answers this {type(value).__name__} with a response model that needs more than the return "
            f"annotation of the function declares: annotate what the response model needs"
        )

    def _candidates(self, value: Any, known: _Known) -> Iterator[Any]:
        # Without an annotation, the value itself may hold more than the route shows.
        if self._annotation is not None or known.declared is None:
            yield value
        if known.declared is not None and not self._filters_itself:
            yield from known.declared.of(value).candidates()

    def settled(self, value: Any) -> Any:
        declared = self._look().declared
        if declared is not None:
            return declared.of(value).settled()
        return self.inner.settled(value) if hasattr(self.inner, "settled") else value

    def _look(self) -> _Known:
        """What is known of the routes now. Replaced at once: another thread may be storing a value."""
        models = self._models()
        if models != self._known.models:
            # A codec that filters by the annotation has checked what it stores.
            others = [one for one in models if not (self._filters_itself and one == self._annotation)]
            declared = self._annotation
            if declared is None and len(models) == 1:
                declared = models[0]
            shown = tuple(made for model in others if (made := _filter(model)) is not None)
            self._known = _Known(models, shown, None if declared is None else _filter(declared))
        return self._known


class _Known(NamedTuple):
    """The response models of the routes, as filters, and the type that decides what is stored."""

    models: tuple[Any, ...]
    shown: tuple[Filter, ...]
    declared: Filter | None


def _filter(model: Any) -> Filter | None:
    """None for a type that pydantic cannot describe: FastAPI has no such response model."""
    try:
        return Filter(Any if model is None else model)
    except Exception:
        return None
