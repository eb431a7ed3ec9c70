"""A client of the language server without a library: messages of JSON-RPC over pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import Any

CAPABILITIES = {"textDocument": {"foldingRange": {"lineFoldingOnly": True}, "rename": {"prepareSupport": True}}}


class Failed(Exception):
    """A response with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class Client:
    def __init__(self) -> None:
        command = [sys.executable, "-c", "from graphport.cli import main; main()", "lsp"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.count = 0
        self.published: dict[int, list[dict[str, Any]]] = {}

    def send(self, method: str, params: Any, **more: Any) -> None:
        content = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(content), content))
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name == b"Content-Length" else length
        message = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.published[message["params"]["version"]] = message["params"]["diagnostics"]
        return message

    def request(self, method: str, params: Any) -> Any:
        self.count += 1
        self.send(method, params, id=self.count)
        while (message := self.receive()).get("id") != self.count:
            pass
        if "error" in message:
            raise Failed(message["error"])
        return message["result"]

    def findings(self, version: int) -> list[dict[str, Any]]:
        """The diagnostics of a version, as soon as they are published."""
        while version not in self.published:
            self.receive()
        return self.published[version]


@contextmanager
def opened(uri: str, text: str):
    """A client that has a text open, and its answer to `initialize`."""
    client = Client()
    try:
        client.request("initialize", {"processId": None, "rootUri": None, "capabilities": CAPABILITIES})
        client.send("initialized", {})
        item = {"uri": uri, "languageId": "nnef", "version": 1, "text": text}
        client.send("textDocument/didOpen", {"textDocument": item})
        yield client
        client.request("shutdown", None)
        client.send("exit", None)
        assert client.process.wait(30) == 0
    finally:
        client.process.kill()
        client.process.communicate()
