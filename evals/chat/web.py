"""The chat as a page on this machine: GET / is the page, POST /answer streams an answer as lines of JSON.

    {"turns": [{"question", "answer"}, ...], "question"}  ->  {"text": piece}, ..., then {"end": true} or {"error"}

The page keeps the conversation; this server keeps nothing. It listens on 127.0.0.1, answers no other host name (a
name of somebody's that leads here) and takes questions from its own page only: a browser says which page asks
(Origin), and asks permission, which nobody gives, before it sends another site's JSON.
"""

import json
from collections.abc import Generator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from evals.chat.session import Chat, Turn
from evals.client import RequestRefused, ServerDied
from evals.report.page import embed, render
from stage import UsageError

HERE = Path(__file__).parent
HOSTS = ("127.0.0.1", "localhost")
LARGEST_REQUEST = 1_000_000  # bytes
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest is in the page, where this part is not allowed
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def page(title: str, base: bool) -> bytes:
    """The page; `title` names the run and the checkpoint."""
    styles, scripts = [HERE / "chat.css"], [HERE / "chat.js"]
    return render(
        HERE / "page.html.j2", styles, scripts, connect="'self'", title=title, facts=embed({"base": base})
    ).encode()


def server(chat: Chat, title: str, port: int) -> ThreadingHTTPServer:
    """The server, bound to `port` (0: any free one); `serve_forever` runs it. Raises UsageError for a taken port."""
    text = page(title, chat.base)

    class Handler(BaseHTTPRequestHandler):
        """One request."""

        def do_GET(self) -> None:
            if self._from_here() and self.path == "/":
                self._head(HTTPStatus.OK, "text/html; charset=utf-8", len(text))
                self.wfile.write(text)
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def do_POST(self) -> None:
            if not self._from_here() or self.path != "/answer":
                return self.send_error(HTTPStatus.NOT_FOUND)
            if self.headers.get_content_type() != "application/json":
                return self.send_error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
            try:
                turns, question = read_request(self.rfile.read(self._length()))
            except ValueError as error:
                return self.send_error(HTTPStatus.BAD_REQUEST, str(error))
            self._head(HTTPStatus.OK, "application/x-ndjson")
            pieces = answer_lines(chat, turns, question)
            try:
                for line in pieces:
                    self.wfile.write(json.dumps(line).encode() + b"\n")
                    self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                pieces.close()  # the reader stopped the answer: the model need not finish it

        def _from_here(self) -> bool:
            host = self.headers.get("Host", "")
            return host.rpartition(":")[0] in HOSTS and self.headers.get("Origin", f"http://{host}") == f"http://{host}"

        def _length(self) -> int:
            return max(0, min(int(self.headers.get("Content-Length", 0)), LARGEST_REQUEST))

        def _head(self, status: HTTPStatus, kind: str, length: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the terminal shows the address only."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}; choose another") from None


def read_request(body: bytes) -> tuple[list[Turn], str]:
    """The turns and the question; ValueError says what is wrong."""
    try:
        request = json.loads(body)
        turns = [Turn(str(t["question"]), str(t["answer"])) for t in request["turns"]]
        return turns, str(request["question"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"expected turns and a question as JSON ({type(error).__name__})") from None


def answer_lines(chat: Chat, turns: list[Turn], question: str) -> Generator[dict[str, Any], None, None]:
    """What POST /answer sends."""
    try:
        for piece in chat.reply(turns, question):
            yield {"text": piece}
        yield {"end": True}
    except (UsageError, ServerDied, RequestRefused) as error:
        yield {"error": str(error)}
