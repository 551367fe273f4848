"""A headless chromium, spoken to over its debugging pipe."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-extensions --disable-dev-shm-usage --window-size=1280,900 --remote-debugging-pipe"
)
PATIENCE = 60  # seconds until a browser that does not answer is given up

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed"
)


class Browser:
    """One headless chromium with one page; `events` gathers what the page did."""

    def __init__(self, profile: Path, *flags: str):
        assert CHROMIUM is not None
        reads, self._write = os.pipe()
        self._read, writes = os.pipe()
        # The pipe's ends are descriptors 3 and 4 in chromium; the shell puts them there, whatever
        # they are here.
        command = f'exec "$0" "$@" 3<&{reads} 4>&{writes}'
        self._process = subprocess.Popen(
            [
                "/bin/bash",
                "-c",
                command,
                CHROMIUM,
                *FLAGS.split(),
                *flags,
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        os.set_blocking(self._read, False)
        self._buffer, self._number, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        [page] = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one command; what happens meanwhile goes to `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            assert time.monotonic() < until and self._process.poll() is None, (
                "chromium does not answer"
            )
            try:
                self._buffer += os.read(self._read, 1 << 20)
            except BlockingIOError:
                time.sleep(0.01)
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def do(self, script: str) -> Any:
        """The value of a JavaScript expression in the page, awaited if it is a promise."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def visit(self, url: str) -> None:
        """Load the page at an address."""
        self.events.clear()
        self.call("Page.navigate", url="about:blank")
        self.until("location.protocol === 'about:'")
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.protocol !== 'about:'")

    def press(self, key: str) -> None:
        """Press a key: a character, or a name such as "ArrowLeft"."""
        text = key if len(key) == 1 else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Write a text where the focus is."""
        self.call("Input.insertText", text=text)

    def look(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Have a screen of this size and taste from now on."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Keep a picture of what is seen."""
        shot = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def open(self, path: Path) -> None:
        """Load a page and wait until it is drawn."""
        self.visit(path.as_uri())
        self.until(
            "[...document.querySelectorAll('.chart')].every((c) => c.querySelector('svg path, svg rect, svg circle'))"
        )

    def until(self, condition: str) -> None:
        """Wait for a condition of the page."""
        until = time.monotonic() + PATIENCE
        while not self.do(condition):
            assert time.monotonic() < until, f"never came true: {condition}"
            time.sleep(0.02)

    def complaints(self) -> list[dict[str, Any]]:
        """Console messages, errors and refused requests."""
        self.do("0")
        names = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in names]

    def requests(self) -> list[str]:
        """Addresses that were asked for, the page itself and inline data left out."""
        sent = [
            e["params"]["request"]["url"]
            for e in self.events
            if e["method"] == "Network.requestWillBeSent"
        ]
        return [
            url
            for url in sent
            if not url.startswith(("data:", "blob:")) and not url.endswith(".html")
        ]

    def close(self) -> None:
        """End chromium."""
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        self._process.wait(PATIENCE)
