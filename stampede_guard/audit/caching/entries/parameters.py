"""Which inputs tell one value from another, and which only say how to get it: handles, switches, limits of time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import annotated
from stampede_guard.audit.source.words import is_cachy, last, path, words

# Parameters that the computation needs, whoever asks.
_HANDLES = frozenset(
    "db session sess conn connection connections cursor cur engine client http api pool store storage backend repo "
    "repository service services svc uow manager adapter bot app ctx context settings config cfg conf logger log "
    "executor loop semaphore limiter es func fn function callback cb factory compute producer getter loader fetcher "
    "supplier handler tasks response resp self cls mcs sender signal task scheduler worker tracer span stream "
    "driver browser page_object transport gateway publisher broker queue sdk dao crud database graph llm embedder "
    "wrapped view renderer resolver reader writer lock model models class klass serializer queryset qs form schema "
    "args kwargs helper rpc web3 w3 toolkit facade".split()
)
# `state_contract_obj` is a contract.
_TAILS = frozenset("obj object instance inst impl".split())
# Parameters that say how, or whether the cache is asked.
_SWITCHES = frozenset(
    "force refresh reload bypass skip fresh verbose debug quiet silent dry ttl timeout expire expires expiry "
    "expiration "
    "age retry retries attempts attempt progress raise strict wait block cache cached caching lock sleep delay chunk "
    "batch workers concurrency trace noop warm update recalculate regenerate recompute rebuild lazy async sync now "
    "threads parallel tries invalidate overwrite save persist store interval backoff stale correlation "
    "logging pretty".split()
)
# Credentials: with most services, each caller's credential gets the same answer.
_CREDENTIALS = frozenset(
    "token tokens credential credentials auth secret password jwt apikey bearer headers cookie cookies".split()
)
_HANDLE_CLASSES = re.compile(
    r"(?:Session|Client|Connection|Redis|Pool|Service|Services|Repository|Repo|Manager|UnitOfWork|Engine|Logger|Tasks|"
    r"Response|Settings|Config|Callable|Cursor|Database|Storage|Store|Backend|Adapter|Gateway|Fetcher|Loader|Provider|"
    r"Factory|Broker|Bot|App|FastAPI|Flask|Lock|Semaphore|Executor|Cache|Driver|API|Api|DAO|UOW|Context|Registry|"
    r"Helper|Facade|HTTPAdapter|Awaitable|Coroutine|Type|type)$"
)
_PLAIN = frozenset(
    "str int float bool date datetime UUID uuid Decimal list dict set tuple List Dict Set Tuple Sequence Enum".split()
)
_IDENTITIES = frozenset(
    "user account tenant org organization organisation member customer principal workspace team company actor viewer "
    "identity profile".split()
)
_ASKED = frozenset(
    "params param filter filters pagination paging page query search options order ordering sort".split()
)
_SUFFIX = re.compile(
    r"_(?:id|ids|pk|uuid|uid|guid|slug|key|name|hash|obj|object|instance|model|code|ref|data|info|dict|str|sha)$"
)
# An id in the key stands for what else is known of that object.
_IDS = frozenset("id pk uuid guid slug sha hash uid url uri path name host domain".split())
_DESCRIBES = frozenset(
    "url uri link path name title text content message obj object instance item payload html soup body raw "
    "params".split()
)
# Parts of a request that tell callers apart.
_PARTS = frozenset(
    "user GET POST args query_params session LANGUAGE_CODE data json get_json form values body tenant organization "
    "organisation org site match_info rel_url query account".split()
)
_OWN = _IDENTITIES | frozenset("language locale lang region project owner pk id kwargs slug site".split())


def is_aside(module: Module, function: Function, name: str) -> bool:
    """Whether the parameter is a handle or a switch, by its name, its annotation and its default."""
    said = words(name)
    if not said or name.startswith("_") or is_cachy(name):
        return True
    if not _SWITCHES.isdisjoint(said) or name in ("self", "cls"):
        return True
    scope = next((scope for scope in function.chain() if name in scope.parameters), None)
    if scope is None:
        return False
    declared = next(argument for argument in scope.arguments if argument.arg == name)
    of = last(annotated(module, declared.annotation)) if declared.annotation is not None else ""
    if of in _PLAIN:
        return False
    if of and _HANDLE_CLASSES.search(of):
        return True
    kind = said[:-1] if len(said) > 1 and said[-1] in _TAILS else said
    if "contract" in kind and any(path(call.func).startswith(f"{name}.functions.") for call in scope.calls):
        return True  # of a chain of blocks: its functions are remote calls
    if kind[-1] in _HANDLES or (said[0] in _HANDLES and len(said) == 1):
        return True
    if _is_injected(scope, declared):
        return (_IDENTITIES | _ASKED).isdisjoint((*said, *words(of)))
    return _is_called(scope, name)


def is_credential(name: str) -> bool:
    said = words(name)
    return not _CREDENTIALS.isdisjoint(said) or ("key" in said and "api" in said)


def is_part(name: str) -> bool:
    """`request.GET`, `self.request.user`, `self.tenant_id`: a part that tells callers apart."""
    owner, _, part = name.rpartition(".")
    if owner in ("request", "self.request", "req"):
        return part in _PARTS
    said = words(part)
    return (
        owner == "self"
        and bool(said)
        and (said[0] in _OWN and (len(said) == 1 or said[-1] in ("id", "pk", "slug", "code")))
    )


def describes(name: str, keyed: Iterable[str]) -> bool:
    """`url` beside an `item_id` in the key: it belongs to that item."""
    return (
        words(name)[-1:] != ()
        and words(name)[-1] in _DESCRIBES
        and any(words(other)[-1:] and words(other)[-1] in _IDS for other in keyed)
    )


def stem(name: str) -> str:
    """What a parameter is about: `user_id` and `user` are about the same."""
    bare = name.rpartition(".")[2].lower().strip("_")
    shorter = _SUFFIX.sub("", bare)
    return shorter.removesuffix("s")


def _is_injected(scope: Function, declared: ast.arg) -> bool:
    """`session = Depends(open_session)`."""
    spec = scope.node.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = [*zip(reversed(positional), reversed(spec.defaults), strict=False)]
    pairs += [(one, value) for one, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value]
    stated = [value for one, value in pairs if one is declared]
    if isinstance(declared.annotation, ast.Subscript):
        stated += [node for node in ast.walk(declared.annotation) if isinstance(node, ast.Call)]
    return any(
        isinstance(value, ast.Call) and last(path(value.func)) in ("Depends", "Provide", "Security", "Inject")
        for value in stated
    )


def _is_called(scope: Function, name: str) -> bool:
    return any(isinstance(call.func, ast.Name) and call.func.id == name for call in scope.calls)
