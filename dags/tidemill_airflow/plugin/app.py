"""Page and API as one FastAPI app, mounted by Airflow's API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from airflow.configuration import conf
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from tidemill.errors import SpecError, TidemillError, UnavailableError, UsageError
from tidemill_airflow.place import Place, place_of
from tidemill_airflow.plugin.kept_answers import KeptAnswers
from tidemill_airflow.plugin.routes import api
from tidemill_airflow.plugin.snapshot import Snapshot
from tidemill_airflow.plugin.storage_gate import StorageGate

STATIC = Path(__file__).parent / "static"

# Only same-origin content, nothing inline, and frames only in Airflow.
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


def streams_app(snapshot: Snapshot | None = None) -> FastAPI:
    """Return the app, which takes snapshots of the streams while it runs.

    Args:
        snapshot: The snapshot to show; by default of the project and environment of this Airflow's DAGs.
    """
    shown = snapshot or Snapshot(_place)

    @asynccontextmanager
    async def looking(_: FastAPI) -> AsyncIterator[None]:
        shown.begin()
        yield
        shown.end()

    app = FastAPI(
        title="Tidemill streams",
        lifespan=looking,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    app.state.snapshot = shown
    app.state.gate = StorageGate()
    app.state.kept = KeptAnswers()
    # A separate cache, so that a request about a pipeline never waits for a large table.
    app.state.advice = KeptAnswers()
    app.middleware("http")(_with_headers)
    app.exception_handler(TidemillError)(_told)
    app.include_router(api, prefix="/api")
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.get("/", include_in_schema=False)(_page)
    return app


def _place() -> Place:
    return place_of(str(Path(conf.get("core", "dags_folder")) / "dags.py"))


def _page() -> FileResponse:
    """Return the page, which contains no stream data and therefore needs no login."""
    return FileResponse(STATIC / "index.html")


async def _with_headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await answer(request)
    response.headers.update(SECURITY_HEADERS)
    # A cached page of an older release must not call this release's API.
    is_api = request.url.path.rpartition("/api/")[1] != ""
    response.headers["Cache-Control"] = "no-store" if is_api else "no-cache"
    return response


async def _told(_: Request, error: Exception) -> JSONResponse:
    """Return a Tidemill error in the `detail` format that FastAPI uses."""
    assert isinstance(error, TidemillError)  # noqa: S101  # the handler of this class
    codes = {SpecError: 409, UsageError: 400, UnavailableError: 503}
    code = next((code for kind, code in codes.items() if isinstance(error, kind)), 500)
    return JSONResponse({"detail": error.problem, **error.as_document()}, code)
