"""Headless Chromium, controlled through pipes with the DevTools protocol, without a driver or package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


class Browser:
    """One page; `errors` has what its scripts and its policy complained of."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._number = 0
        self._rest = b""
        self.errors: list[str] = []
        target = self.call("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        self._session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True}, None)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, parameters: dict[str, Any] | None = None, session: str | None = "") -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = session or self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self, seconds: float = 60) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], seconds)[0]:
                raise TimeoutError("Chromium does not answer")
            self._rest += os.read(self._read, 1 << 20)
        said, _, self._rest = self._rest.partition(b"\0")
        answer = json.loads(said)
        if answer.get("method") == "Runtime.exceptionThrown":
            details = answer["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
            self.errors.append(answer["params"]["entry"]["text"])
        return answer

    def size(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def open(self, path: Path) -> float:
        """Open a report and wait until it is ready. Return the seconds."""
        start = time.perf_counter()
        self.call("Page.navigate", {"url": path.resolve().as_uri()})
        self.wait("document.body && document.body.dataset.ready === 'yes'")
        self.frame()
        return time.perf_counter() - start

    def wait(self, claim: str, seconds: float = 60) -> None:
        until = time.perf_counter() + seconds
        while not self(claim):
            if time.perf_counter() > until:
                raise TimeoutError(f"{claim} does not become true; {self.errors}")
            time.sleep(0.01)

    def frame(self) -> None:
        """Wait until pending changes are rendered."""
        self("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def __call__(self, expression: str) -> Any:
        """Evaluate a JavaScript expression and return its value."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description"))
        return answer["result"].get("value")

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            event = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", event)
        self.frame()

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", {"type": kind, "key": key, **(text if kind == "keyDown" else {})})
        self.frame()

    def type(self, text: str) -> None:
        self.call("Input.insertText", {"text": text})
        self.frame()

    def picture(self, path: Path) -> None:
        self.frame()
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", {"format": "png"})["data"]))


@contextmanager
def browser(width: int = 1280, height: int = 860) -> Generator[Browser]:
    """Chromium, as long as the block lasts."""
    if CHROMIUM is None:
        raise FileNotFoundError("chromium")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        (their_read, write), (read, their_write) = os.pipe(), os.pipe()

        def hand_over() -> None:
            # The pipes must be file descriptors 3 and 4; duplicate them first, so that neither overwrites the other.
            one, other = os.dup(their_read), os.dup(their_write)
            os.dup2(one, 3)
            os.dup2(other, 4)

        process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={folder}"],
            preexec_fn=hand_over,  # noqa: PLW1509  no thread of ours runs
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_read)
        os.close(their_write)
        try:
            found = Browser(write, read)
            found.size(width, height)
            yield found
            found.call("Browser.close", None, None)
        finally:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(write)
            os.close(read)
