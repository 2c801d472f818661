"""The stored bytes of a body of which only parts are known: added to, cut from, completed (RFC 9110, 15.3.7.3)."""

from __future__ import annotations

from typing import NamedTuple

from stampede_guard.http.spec.ranges import ByteSpan

__all__ = ["MOST_SPANS", "HeldBytes"]

MOST_SPANS = 16
"""Separate parts of one body. A further one displaces the smallest."""


class HeldBytes(NamedTuple):
    """`content` has the bytes of the `spans`, one after the other. These are in order, and at least one byte is
    missing between two of them. `length`: of the complete body.
    """

    spans: tuple[ByteSpan, ...]
    content: bytes
    length: int

    @property
    def are_consistent(self) -> bool:
        """Whether there are as many bytes as the spans say."""
        return len(self.content) == sum(span.size for span in self.spans)

    @property
    def are_all(self) -> bool:
        return self.spans == (ByteSpan(0, self.length - 1),)

    @property
    def missing(self) -> ByteSpan | None:
        """From the first missing byte to the last one; None if all are there. Bytes in between may be held."""
        begin = self.spans[0].last + 1 if self.spans[0].first == 0 else 0
        end = self.spans[-1].first - 1 if self.spans[-1].last == self.length - 1 else self.length - 1
        return ByteSpan(begin, end) if begin <= end else None

    def place(self, wanted: ByteSpan) -> int | None:
        """Where in `content` these bytes begin; None if one of them is missing."""
        offset = 0
        for span in self.spans:
            if span.first <= wanted.first and wanted.last <= span.last:
                return offset + wanted.first - span.first
            offset += span.size
        return None

    def bytes_of(self, wanted: ByteSpan) -> bytes | None:
        place = self.place(wanted)
        return None if place is None else self.content[place : place + wanted.size]

    def adding(self, first: int, content: bytes, *, most_bytes: int) -> HeldBytes | None:
        """With a further part, which is always among them. Smaller ones are dropped if there would be more than
        `most_bytes`, or than `MOST_SPANS` parts. None if the part contradicts a held byte: this is another body's.
        """
        new = ByteSpan(first, first + len(content) - 1)
        if not content or first < 0 or new.last >= self.length:
            return None
        touched = [span for span in self.spans if span.first <= new.last + 1 and new.first <= span.last + 1]
        for span in touched:
            both = ByteSpan(max(span.first, new.first), min(span.last, new.last))
            if both.size > 0 and self.bytes_of(both) != content[both.first - first : both.last - first + 1]:
                return None
        begin = min([new.first, *(span.first for span in touched)])
        end = max([new.last, *(span.last for span in touched)])
        grown = ByteSpan(begin, end)
        if grown.size > most_bytes:
            return HeldBytes((new,), content, self.length)
        before = self.bytes_of(ByteSpan(begin, first - 1)) if begin < first else b""
        after = self.bytes_of(ByteSpan(new.last + 1, end)) if end > new.last else b""
        pieces = {grown: (before or b"") + content + (after or b"")}
        left = most_bytes - grown.size
        for span in sorted(set(self.spans) - set(touched), key=lambda span: (-span.size, span)):
            if span.size <= left and len(pieces) < MOST_SPANS:
                left -= span.size
                pieces[span] = self.bytes_of(span) or b""
        kept = tuple(sorted(pieces))
        return HeldBytes(kept, b"".join([pieces[span] for span in kept]), self.length)
