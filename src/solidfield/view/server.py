"""Hands the page and its pieces to a browser on the same machine, and to nobody else.

Every address begins with a token that only the opened link holds; Host must be the address that was bound (a foreign
name that resolves to the loopback address is refused), and Origin, where a browser sends one, the page's own. What
can be asked for is named here: the files of the page, and layers, laws and imagined readings of the maps that were
opened. No part of a request is ever a path.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..errors import SolidError
from .assets import page_files
from .colours import colour_scales
from .sensors import cell_of
from .shown import Shown, plain_request
from .try_sensors import Draw, change, with_readings

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ImportError:
    raise SolidError("`solid view` needs Starlette and uvicorn; pip install 'solidfield[view]'") from None

LARGEST = 65_536  # bytes of a request: the corners of an area, or imagined sensors
KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass
class Exhibition:
    """All that one page shows."""

    shown: list[Shown]
    outline: list[list[list[float]]] = field(default_factory=list)  # lines of (x, y)
    draw: Draw | None = None  # of the first file's run, where there is one
    zone: str = "UTC"  # of the times that are shown

    @cached_property
    def about(self) -> dict[str, Any]:
        return {
            "files": [one.about for one in self.shown],
            "outline": self.outline,
            "colours": colour_scales(),
            "imagine": self.draw is not None,
            "zone": self.zone,
        }

    def imagine(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Draw again with imagined sensors; the maps become a further file, in place of the last ones."""
        first = self.shown[0]
        if self.draw is None or first.sensors is None:
            raise SolidError("imagined sensors need a run; open a run folder with --readings")
        variable, start = str(request["variable"]), int(request["start"])
        time = first.maps["init_time"].values[start]
        maps = self.draw(with_readings(first.sensors.frames, variable, time, request["sensors"]))
        again = Shown(maps, "with imagined sensors", first.sensors)
        number = len(self.about["files"])
        self.shown[number:] = [again]
        lead = int(request["lead"])
        before, after = first.frame(variable, "std", start, lead), again.frame(variable, "std", 0, lead)
        last = request["sensors"][-1]
        return {"number": number, "about": again.about} | change(before, after, cell_of(maps, last["y"], last["x"]))


def application(exhibition: Exhibition, token: str, hosts: set[str]) -> Guard:
    """The whole server; `hosts` are the names and ports by which it may be called."""
    assets, described = page_files(), exhibition.about  # made now, so that the first map does not wait for it

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in assets:
            raise HTTPException(404)
        return Response(assets[name], media_type=KINDS[name.rpartition(".")[2]])

    async def about(request: Request) -> Response:
        return JSONResponse(described)

    def chosen(number: str) -> Shown:
        if not number.isdecimal() or int(number) >= len(exhibition.shown):
            raise HTTPException(404)
        return exhibition.shown[int(number)]

    def frame(request: Request) -> Response:
        query = request.query_params
        asked = plain_request(query)
        values = chosen(query.get("file", "0")).frame(
            asked["variable"], query.get("layer", "mean"), asked["start"], asked["lead"], min(asked["count"], 32)
        )
        return Response(values.astype("<f4").tobytes(), media_type="application/octet-stream")

    def place(request: Request) -> Response:
        query = request.query_params
        asked = plain_request(query)
        return JSONResponse(
            chosen(query.get("file", "0")).place(
                asked["variable"], asked["y"], asked["x"], asked["start"], asked["first"], asked["above"]
            )
        )

    def area(body: dict[str, Any]) -> dict[str, Any]:
        ring = [[float(corner[0]), float(corner[1])] for corner in body["ring"]]
        asked = plain_request(
            {name: str(body[name]) for name in ("variable", "start", "first", "above") if body.get(name) is not None}
        )
        return chosen(str(body.get("file", 0))).area(
            asked["variable"], ring, asked["start"], asked["first"], asked["above"]
        )

    routes = [
        Route("/", page),
        Route("/about", about),
        Route("/frame", frame),
        Route("/place", place),
        Route("/area", answering(area), methods=["POST"]),
        Route("/imagine", answering(exhibition.imagine), methods=["POST"]),
        Route("/{name}", page),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={SolidError: refuse}), token, hosts)


def answering(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
    """A question that comes as JSON, never longer than it may be."""

    async def endpoint(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                raise HTTPException(413)
        try:
            return JSONResponse(await run_in_threadpool(answer, json.loads(body)))
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            raise HTTPException(400) from None

    return endpoint


def refuse(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": " ".join(str(error).split())}, 422)


class Guard:
    """Answers only who holds the token and calls the server by its own name."""

    def __init__(self, app: Any, token: str, hosts: set[str]):
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        _, token, *rest = scope["path"].split("/", 2)
        origins = (None, *(f"http://{host}" for host in self.hosts))  # a browser sends none when it opens the page
        status = 0
        if headers.get(b"host") not in self.hosts or headers.get(b"origin") not in origins:
            status = 403
        elif not rest or not secrets.compare_digest(token.encode(), self.token.encode()):
            status = 404
        elif _too_long(headers.get(b"content-length", "0")):
            status = 413

        async def told(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        if status:
            return await Response(status_code=status, headers={"Connection": "close"})(scope, receive, told)
        inner = {**scope, "path": f"/{rest[0]}", "raw_path": f"/{rest[0]}".encode()}
        return await self.app(inner, receive, told)


def _too_long(length: str) -> bool:
    return not length.isdecimal() or int(length) > LARGEST


def bind(host: str, port: int) -> tuple[socket.socket, set[str]]:
    """A socket that waits for the browser, and the names by which it may be called; port 0 takes any that is free."""
    if host in ("", "0.0.0.0", "::"):
        raise SolidError(f"'{host}' is every address of this machine; name the one that others call it by")
    ready = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    ready.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        ready.bind((host, port))
    except OSError as error:
        raise SolidError(
            f"cannot serve on {host} port {port}: {error.strerror or error}; give another --port"
        ) from None
    ready.listen()
    port = ready.getsockname()[1]
    loopback = ("127.0.0.1", "localhost", "::1")
    names = loopback if host in loopback else (host,)
    return ready, {f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names}


def serve(exhibition: Exhibition, ready: socket.socket, token: str, hosts: set[str]) -> None:
    """Answer until Ctrl+C."""
    import uvicorn

    config = uvicorn.Config(
        application(exhibition, token, hosts), log_level="error", ws="none", lifespan="off", server_header=False
    )
    uvicorn.Server(config).run(sockets=[ready])
