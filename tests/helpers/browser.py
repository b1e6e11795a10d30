"""A headless Chromium through chromedriver's HTTP interface: open a file, run a script in the page, click, press keys, take a picture.

Only what the tests of pages need. Where either program is missing the tests are skipped with that reason.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--force-color-profile=srgb")  # fmt: skip
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's id, a constant of the WebDriver standard
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015",
        "Tab": "\ue004"}  # fmt: skip


def missing() -> str:
    """Why pages cannot be opened here; empty where they can."""
    wanted = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "chromedriver": ("chromedriver",)}
    absent = [name for name, programs in wanted.items() if not any(shutil.which(p) for p in programs)]
    return f"no {' and no '.join(absent)}: `apt-get install chromium chromium-driver`" if absent else ""


class Browser:
    """One session; a context manager."""

    def __init__(self, width: int = 1400, height: int = 900, dark: bool = False):
        self.folder = tempfile.TemporaryDirectory(prefix="browser", ignore_cleanup_errors=True)
        program = next(p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p)
        self.url = ""
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert self.driver.stdout is not None
            line = next(x for x in self.driver.stdout if "successfully" in x)
            port = int(line.split()[-1].rstrip("."))
            self.url = f"http://127.0.0.1:{port}/session"
            args = [*FLAGS, f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}"]
            args += ["--blink-settings=preferredColorScheme=0"] if dark else []
            wanted = {"goog:chromeOptions": {"binary": program, "args": args}, "goog:loggingPrefs": {"browser": "ALL"}}
            self.url += "/" + self._send("POST", "", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]

    def open(self, path: Path) -> float:
        """Seconds until the page has drawn (its `load` event, and one frame after it)."""
        t0 = time.perf_counter()
        self._send("POST", "/url", {"url": Path(path).resolve().as_uri()})
        self.wait_frame()
        return time.perf_counter() - t0

    def wait_frame(self) -> None:
        script = "const f = arguments[0]; requestAnimationFrame(() => setTimeout(() => f(0), 0));"
        self._send("POST", "/execute/async", {"script": script, "args": []})

    def run(self, script: str, *args: Any) -> Any:
        """What the body of a function returns."""
        return self._send("POST", "/execute/sync", {"script": script, "args": list(args)})

    def click(self, selector: str, nth: int = 0) -> None:
        found = self._send("POST", "/elements", {"using": "css selector", "value": selector})
        assert len(found) > nth, f"nothing matches {selector}"
        self._send("POST", f"/element/{found[nth][ELEMENT]}/click")
        self.wait_frame()

    def press(self, *keys: str) -> None:
        """Keys by name, or text, at what has the focus."""
        actions = [{"type": t, "value": c} for k in keys for c in ([KEYS[k]] if k in KEYS else k) for t in ("keyDown", "keyUp")]
        self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})
        self.wait_frame()

    def picture(self, path: Path) -> None:
        Path(path).write_bytes(base64.b64decode(self._send("GET", "/screenshot")))

    def accessible(self) -> list[dict[str, Any]]:
        """What a screen reader is told, in its order: role, name, and properties (focusable, selected, expanded, level ..)."""
        self._send("POST", "/goog/cdp/execute", {"cmd": "Accessibility.enable", "params": {}})
        tree = self._send("POST", "/goog/cdp/execute", {"cmd": "Accessibility.getFullAXTree", "params": {}})["nodes"]
        return [{"role": n["role"]["value"], "name": n.get("name", {}).get("value", ""),
                 **{p["name"]: p["value"].get("value") for p in n.get("properties", ())}}
                for n in tree if not n.get("ignored")]  # fmt: skip

    def log(self) -> list[str]:
        """What the page wrote to its console: errors, if any."""
        return [x["message"] for x in self._send("POST", "/se/log", {"type": "browser"}) if x["level"] == "SEVERE"]

    def close(self) -> None:
        if self.url.count("/") > 3:
            self._send("DELETE", "")
        self.driver.terminate()
        self.driver.wait(10)
        self.folder.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def browser(**options: Any) -> Browser:
    """A session, or a skipped test that says what is not installed."""
    if why := missing():
        pytest.skip(why)
    return Browser(**options)
