"""What pydantic never shows: fields with `exclude=True`, and the contents of `SecretStr` and `SecretBytes`.

The store does not hold them either. Every caller, also the one whose call was computed, gets a model without them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from stampede_guard.errors import Misuse
from stampede_guard.values.codec.attributes import per_class

__all__ = ["is_excluded", "is_secret", "masked", "unmasked"]

_MASK = "*" * 10


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
    return bool(secret.get_secret_value())


def unmasked(kind: Any, is_full: object) -> Any:
    """A secret that shows the same mask. Reading it is an error that says why."""
    return _hidden(kind) if is_full else kind(b"" if kind.__name__ == "SecretBytes" else "")


@per_class
def _hidden(kind: Any) -> Any:
    """One object for all values. Two models are then equal without a comparison of their secrets, which is an error."""
    return kind(_HiddenBytes(_MASK.encode()) if kind.__name__ == "SecretBytes" else _HiddenText(_MASK))


def _refuse(*_: object, **__: object) -> NoReturn:
    raise Misuse(
        "this secret was not stored: a SecretStr in a cached result holds its mask for every caller. Let the function "
        "return the text itself, and pass encryption= to the guard; or read the secret outside of the cached function"
    )


class _HiddenText(str):
    """Stands for the content of a secret. Pydantic asks only whether there is one."""

    __slots__ = ()
    __str__ = __format__ = encode = __add__ = __radd__ = __iter__ = __getitem__ = __mod__ = _refuse


class _HiddenBytes(bytes):
    __slots__ = ()
    __str__ = __format__ = decode = __add__ = __radd__ = __iter__ = __getitem__ = _refuse
