"""A headless Chromium for tests, spoken to by its DevTools protocol: no driver, no package beside aiohttp.

The tests that look at pages skip where there is no Chromium (requirements/system.sh installs it).
"""

import asyncio
import base64
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PATIENCE = 60.0  # seconds, for a start or an answer on a busy machine
FLAGS = ("--headless=new", "--remote-debugging-port=0", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


class Page:
    """One tab. `errors` collects what its scripts threw or reported, `requests` the addresses it asked for."""

    def __init__(self, profile: Path) -> None:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if chromium is None:
            pytest.skip("no Chromium (apt-get install chromium)")
        command = [chromium, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._loop, self._ids = asyncio.new_event_loop(), itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._loaded = 0
        self._loop.run_until_complete(self._connect(profile / "DevToolsActivePort"))
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    async def _connect(self, port_file: Path) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (port_file.is_file() and port_file.read_text().count("\n")):
            assert self._process.poll() is None and time.monotonic() < deadline, "Chromium did not start"
            await asyncio.sleep(0.05)
        self._session = aiohttp.ClientSession()
        port = port_file.read_text().splitlines()[0]
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as answer:
            url = next(t["webSocketDebuggerUrl"] for t in await answer.json() if t["type"] == "page")
        self._socket = await self._session.ws_connect(url, max_msg_size=0)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol and its result."""
        return self._loop.run_until_complete(asyncio.wait_for(self._call(method, parameters), PATIENCE))

    async def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive()).data)
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])
            self._note(message["method"], message["params"])

    def _note(self, event: str, parameters: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.errors.append(str(parameters["exceptionDetails"]))
        elif event == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event == "Page.loadEventFired":
            self._loaded += 1

    def open(self, url: str) -> None:
        """Go to a page and wait until it has loaded."""
        before = self._loaded
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + PATIENCE
        while self._loaded == before:
            assert time.monotonic() < deadline, f"{url} did not load"
            self.run("0")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise; AssertionError with what it threw."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """The value of an expression as soon as it is true."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            assert time.monotonic() < deadline, script
            time.sleep(0.02)
        return value

    def theme(self, name: str) -> None:
        """What the page learns of the reader's preference: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def barriers(self, part: str = "document") -> list[Any]:
        """What axe-core finds against its accessibility rules in a part of the page: [rule, elements]."""
        if not self.run("window.axe !== undefined"):
            folder = importlib.util.find_spec("axe_playwright_python").submodule_search_locations[0]  # type: ignore[union-attr, index]
            self.run((Path(folder) / "axe.min.js").read_text() + "; 0")
        violations = "r => r.violations.map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html)])"
        return list(self.run(f"axe.run({part}).then({violations})"))

    def screenshot(self, path: Path) -> None:
        """What is in sight, as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self) -> None:
        """End the browser."""
        self._loop.run_until_complete(self._session.close())
        self._loop.close()
        self._process.terminate()
        self._process.wait(timeout=PATIENCE)
