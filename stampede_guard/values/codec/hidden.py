"""What pydantic never shows: fields with `exclude=True`, and the contents of `SecretStr` and `SecretBytes`.

The store does not hold them either. Every caller, also the one whose call was computed, gets a model without them.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from stampede_guard.errors import Misuse
from stampede_guard.values.codec.attributes import per_class

__all__ = ["is_excluded", "is_secret", "masked", "public_kind", "unmasked"]


@per_class
def is_secret(kind: type) -> bool:
    """Whether a class is `SecretStr` or `SecretBytes`."""
    return kind.__module__ == "pydantic.types" and kind.__name__ in ("SecretStr", "SecretBytes")


def is_excluded(field: Any, *value: Any) -> bool:
    """Whether pydantic leaves out a field: always, or with this value. Without a value: always, or with some value."""
    if field.exclude:
        return True
    chosen = getattr(field, "exclude_if", None)
    return chosen is not None and (not value or bool(chosen(*value)))


def masked(secret: Any) -> bool:
    """Whether the secret holds anything: that is all that its mask tells."""
    return isinstance(secret, _Unstored) or bool(secret.get_secret_value())


def unmasked(kind: Any, is_full: object) -> Any:
    """A secret that shows the same mask. Reading it is an error that says why."""
    return _hidden(kind) if is_full else kind(b"" if kind.__name__ == "SecretBytes" else "")


def public_kind(kind: type) -> type:
    """The class of pydantic for the class of a secret that was not stored. Every other class is its own."""
    return kind.__mro__[2] if issubclass(kind, _Unstored) else kind


@per_class
def _hidden(kind: Any) -> Any:
    """One object for all values. Two models are then equal without a comparison of their secrets, which is an error."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (_Unstored, kind), names)(_Content())


def _refuse(*_: object, **__: object) -> NoReturn:
    raise Misuse(
        "this secret was not stored: a SecretStr or SecretBytes in a cached result holds its mask for every caller, "
        "and nothing that could be compared or sent. Let the function return the text itself, and pass encryption= to "
        "the guard; or read the secret outside of the cached function"
    )


class _Content:
    """Stands for the content of a secret. Pydantic asks only whether there is one.

    It is no text: code in C, such as `hmac.compare_digest`, would read one without any method of its class, and a text
    that is equal in all secrets is everybody's password.
    """

    __slots__ = ()
    __str__ = __bytes__ = __format__ = __int__ = __float__ = __index__ = __call__ = __fspath__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __len__ = __iter__ = __reversed__ = __contains__ = __getitem__ = __reduce_ex__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "<not stored>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse()


class _Unstored:
    """Goes before the class of pydantic. What shows the mask stays as it is there."""

    _secret_value: Any
    __len__ = _refuse

    def get_secret_value(self) -> Any:
        """For its own JSON, pydantic asks whether there is a content."""
        if sys._getframe(1).f_globals.get("__name__") != "pydantic.types":
            _refuse()
        return self._secret_value

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self is other or (bool(_refuse()) if is_secret(type(other)) else False)

    def __hash__(self) -> int:
        """A frozen model has a hash, as it has without a cache. Alone, the secret would be missing from every set."""
        if not str(sys._getframe(1).f_globals.get("__name__")).startswith("pydantic."):
            _refuse()
        return id(self)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _: object) -> Any:
        return self

    def __reduce_ex__(self, _: object) -> Any:
        return unmasked, (public_kind(type(self)), True)
