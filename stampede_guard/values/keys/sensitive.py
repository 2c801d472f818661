"""Which parameters hold a secret or name a person. Their values are hashed in keys, whatever their length.

The hash does not protect a short secret: anyone who can read the store can check a guess. It keeps values out of
the names that operators list, log and put on dashboards.
"""

from __future__ import annotations

import functools
import itertools
import re

from stampede_guard.values.masking import KNOWN_TOKEN

__all__ = ["holds_sensitive_names", "is_plain", "is_sensitive", "names_a_user", "names_one_user"]

_SECRETS = frozenset(
    """
    token tokens jwt bearer csrf xsrf key keys apikey apikeys password passwords passwd passphrase passcode pwd pw pass
    secret secrets credential credentials authorization authentication auth oauth session sessions sessionid sid cookie
    cookies otp totp pin signature hmac nonce accesstoken refreshtoken private
    """.split()
)
_PERSONS = frozenset(
    """
    email emails mail mails emailaddress phone phones phonenumber telephone tel mobile fax ssn nin passport iban bic
    card pan cvv cvc creditcard account address street zip zipcode postcode birthday birthdate birth dob username
    usernames login firstname lastname surname fullname forename nickname ip gender salary
    """.split()
)
# A person, unless it is a number: `user` may be a name or an address; an operator searches for a `user_id`.
_SOMEBODY = frozenset(
    "user users person persons customer customers patient employee member visitor owner".split()
)
_PAIRS = frozenset(
    {("first", "name"), ("last", "name"), ("full", "name"), ("user", "name"), ("e", "mail"), ("maiden", "name"),
     ("middle", "name"), ("given", "name"), ("family", "name"), ("display", "name"), ("date", "birth")}
)  # fmt: skip
_IDENTITIES = _SOMEBODY | frozenset(
    "auth token tokens session jwt credential credentials authorization principal identity claims tenant me caller "
    "username login email account permissions roles scopes request websocket viewer actor".split()
)
_ONE_USER = frozenset(
    "user person customer patient employee member visitor owner auth token jwt credentials authorization principal "
    "identity claims tenant me caller username login account viewer actor".split()
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Labels in the text of a part: names of fields, keys of a dict, first elements of a pair. They are also found in a text
# of the user's, such as a query or JSON.
_LABEL = re.compile(
    r"([A-Za-z_][\w%\-]*)=|'([^'=,()]{1,40})':|tuple\('([^'=,()]{1,40})',|\"([\w\-]{1,40})\"\s?:"
)
_BYTES = re.compile(r"byte(?:s|array)\(((?:[0-9a-f]{2})+)\)")
"""Bytes in the text of a part: they are written in hexadecimal, which anyone can read back."""
# Whether a string can stand in a key as it is, unchecked. A long one cannot: it would be shortened anyway. An equals
# sign inside may follow the name of a secret. An at sign may follow the credentials of a URL. A token may begin as
# those do that are known by their form (`masking.KNOWN_TOKEN`). A short text holds none of them, and hits pay for it.
is_plain = re.compile(
    r"[A-Za-z0-9\-_.~:/+]{0,14}|"
    r"(?!(?:.{0,40}[\-.~:/+@])?(?:eyJ|[spr]k[_\-]|gh[opsru]_|github_|glpat-|xox|A[KS]IA|AIza))"
    r"(?:[A-Za-z0-9\-_.~:/+]{0,40}={0,2}|[A-Za-z0-9\-_.~@+]{0,40}={0,2})",
    re.ASCII,
).fullmatch
_SHORTEST_TOKEN = 15
"""Characters. No service gives out shorter tokens."""
_CREDENTIAL = re.compile(r"(?:bearer|basic|token)\s", re.IGNORECASE).match
# A URL's userinfo (RFC 3986, section 3.2.1) stands between these two marks, which may be percent-encoded.
_BEFORE_USERINFO = re.compile(r"//|:|%(?:25)*(?:3A|2F)", re.IGNORECASE).search
_AFTER_USERINFO = re.compile(r"@|%(?:25)*40").search


@functools.lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


@functools.lru_cache(maxsize=4096)
def is_sensitive(name: str) -> bool:
    """Whether a name suggests a secret or a person: `api_key`, `userEmail`, `session`. Whole words count only."""
    words = _words(name)
    found = set(words)
    if found & (_SECRETS | _PERSONS) or _PAIRS & set(itertools.pairwise(words)):
        return True
    return bool(found & _SOMEBODY) and not found & {"id", "ids", "uuid", "count", "group", "type", "limit"}


@functools.lru_cache(maxsize=1024)
def names_a_user(name: str) -> bool:
    """Whether a parameter may identify a user. Then no error may advise leaving it out of a key."""
    return bool(set(_words(name)) & _IDENTITIES) or is_sensitive(name)


def names_one_user(name: str) -> bool:
    """Whether a parameter is the user of a request: `current_user`, `token`. Not `session` or `user_service`."""
    words = _words(name)
    return bool(words) and words[-1] in _ONE_USER


@functools.lru_cache(maxsize=4096)
def holds_sensitive_names(text: str) -> bool:
    """Whether a part's text has such names inside: fields of a record, keys of a dictionary, parameters of a URL.

    Also whether it has the credentials of a URL, or a token that is known by its form.
    """
    if "byte" in text and (found := _BYTES.findall(text)):
        read = [bytes.fromhex(one).decode("latin-1") for one in found]
        plain = _BYTES.sub(lambda one: f"'{bytes.fromhex(one[1]).decode('latin-1')}'", text)
        return any(map(holds_sensitive_names, [*read, plain]))
    # Quick, because hits pay for it: most texts have none of the marks.
    if " " in text and _CREDENTIAL(text) is not None:
        return True
    if _holds_userinfo(text):
        return True
    if len(text) >= _SHORTEST_TOKEN and KNOWN_TOKEN.search(text) is not None:
        return True
    if not ("=" in text or "':" in text or '":' in text or "tuple('" in text or '" :' in text):
        return False
    return any(is_sensitive("".join(found)) for found in _LABEL.findall(text))


def _holds_userinfo(text: str) -> bool:
    """Whether a URL in the text may name a user or a password: `redis://user:password@host`, `https://token@host`.

    An unquoted password may hold any character. So every text counts that has a colon or `//` before an at sign.
    """
    begin = _BEFORE_USERINFO(text)
    return begin is not None and _AFTER_USERINFO(text, begin.end()) is not None
