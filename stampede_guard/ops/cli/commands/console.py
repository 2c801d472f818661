"""`stampede-guard console`: pages about a running fleet, for a browser on this machine."""

from __future__ import annotations

import getpass
import logging
import secrets
import socket
from typing import Annotated

import typer

from stampede_guard.api.urls import store_from_url
from stampede_guard.errors import Misuse
from stampede_guard.ops import console as pages
from stampede_guard.ops.cli.clients import leases_at
from stampede_guard.ops.cli.options import Namespace, Url, given
from stampede_guard.ops.cli.running import run
from stampede_guard.ops.cli.saying import say

__all__ = ["register"]

TOKEN_BYTES = 24


def register(app: typer.Typer) -> None:
    app.command()(console)


def console(
    host: Annotated[str, typer.Option("--host", help="Listen at this address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 8799,
    allow_action: Annotated[
        list[str] | None,
        typer.Option("--allow-action", help="Allow this action, for example mode. Repeat it for others."),
    ] = None,
    names: Annotated[
        bool,
        typer.Option("--names", help="Show names of entries, which contain values of parameters."),
    ] = False,
    leases_url: Annotated[
        str | None,
        typer.Option(
            "--leases-url",
            metavar="URL",
            help="Where leases and jobs are, if not in the store.",
            envvar="STAMPEDE_GUARD_LEASES_URL",
        ),
    ] = None,
    url: Url = None,
    namespace: Namespace = "default",
) -> None:
    """Show a running fleet in a browser: rates, functions, faults. Read-only unless actions are allowed by name.

    Prints an address with a random token. Nobody can open the pages without it. Ends with Ctrl-C.
    """

    async def work() -> int:
        try:
            import uvicorn
        except ImportError:
            raise Misuse(
                "the console needs one more package: pip install '.[console]' in a clone of the repository"
            ) from None

        async with leases_at(leases_url or given(url), namespace) as leases:
            fleet = pages.Fleet(
                store_from_url(given(url)), namespace, leases=leases, shows_names=names, url=given(url)
            )
            made = pages.ConsoleApp.of(fleet, allow=_user, actions=allow_action or ())
            token = secrets.token_urlsafe(TOKEN_BYTES)
            with _listening(host, port) as listener:
                at = listener.getsockname()[1]
                shown = f"[{host}]" if ":" in host else host
                gate = pages.Gate(made, token=token, host=host, mark=str(at))
                # No log of requests: an address contains the token.
                config = uvicorn.Config(
                    gate, log_config=None, access_log=False, server_header=False, lifespan="off",
                    timeout_graceful_shutdown=1,
                )  # fmt: skip
                logging.getLogger("stampede_guard").addHandler(logging.StreamHandler())
                say(f"http://{shown}:{at}/?token={token}")
                await uvicorn.Server(config).serve(sockets=[listener])
            await fleet.aclose()
        return 0

    run(work, url=url)


def _user(request: object) -> str:
    """Whoever has the token is the person that started the command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "the operator"


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise Misuse(f"cannot listen at {host}, port {port}: {error.strerror or error}; see --port") from None
