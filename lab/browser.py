"""A headless Chromium for tests and benches, driven over the pipe of its DevTools protocol.

No package and no port is needed.
``KEMU_CHROMIUM`` names the program; else the usual names are looked for. Tests of pages are skipped without a browser.
"""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "KEMU_CHROMIUM"
NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)  # fmt: skip
ARGUMENTS = (
    *("--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking"),
    "--force-color-profile=srgb",
)  # fmt: skip
PATIENCE_S = 60.0


def chromium() -> str:
    """The browser's program; "" if there is none."""
    named = os.environ.get(VARIABLE, "")
    if named:
        assert Path(named).exists(), f"${VARIABLE} names {named}, which does not exist"
        return named
    return next((found for name in NAMES if (found := shutil.which(name) or "")), "")


class Browser:
    """One browser process. Close it after use."""

    def __init__(self, program: str, profile: Path) -> None:
        reads, self._out = os.pipe()
        self._in, writes = os.pipe()
        os.set_inheritable(reads, True)
        os.set_inheritable(writes, True)
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        script = f'exec "$0" "$@" 3<&{reads} 4>&{writes}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, program, *ARGUMENTS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        os.set_blocking(self._in, False)
        self._unread = b""
        self._number = 0
        self.listeners: list[Callable[[dict[str, Any]], None]] = []

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Send a command, and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        data = json.dumps({**message, "sessionId": session} if session else message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        number = self._number
        deadline = time.monotonic() + PATIENCE_S
        while True:
            told = self._next(deadline, method)
            if told.get("id") == number:
                assert "error" not in told, f"{method}: {told['error']}"
                answer: dict[str, Any] = told["result"]
                return answer
            for listener in self.listeners:
                listener(told)

    def _next(self, deadline: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._unread:
            assert time.monotonic() < deadline, f"no answer to {method}"
            assert self._process.poll() is None, f"the browser ended during {method}"
            try:
                self._unread += os.read(self._in, 1 << 20)
            except BlockingIOError:
                time.sleep(0.002)
        line, _, self._unread = self._unread.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)


class OpenPage:
    """A file opened in a tab of its own. ``faults``: console errors, exceptions, and requests to anything but it."""

    def __init__(
        self, browser: Browser, file: Path, *, wide: int = 1200, high: int = 800, dark: bool = False, at: str = ""
    ) -> None:
        self._browser = browser
        self.address = file.resolve().as_uri()
        self.faults: list[str] = []
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._target: str = target
        self._session: str = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.listeners.append(self._listen)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call("Performance.enable", timeDomain="threadTicks")
        self._call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        self._call("Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=self.address + at)
        self.wait(
            "document.getElementById('page') && document.getElementById('page').getAttribute('aria-busy') === 'false'"
        )

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def _listen(self, told: dict[str, Any]) -> None:
        if told.get("sessionId") != self._session:
            return
        method, said = told["method"], told["params"]
        if method == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.faults.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.faults.append(f"log: {said['entry']['text']}")
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.faults.append(f"console: {json.dumps(said['args'])[:600]}")
        elif method == "Network.requestWillBeSent" and not said["request"]["url"].startswith(self.address):
            self.faults.append(f"request: {said['request']['url']}")

    def get(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        made = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in made, f"{expression}: {made['exceptionDetails']}"
        return made["result"].get("value")

    def cpu_ms(self) -> float:
        """CPU time of the page's thread since it was opened. Other work of the machine does not count."""
        metrics = {each["name"]: each["value"] for each in self._call("Performance.getMetrics")["metrics"]}
        return float(metrics["TaskDuration"]) * 1000

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.get(expression):
            assert time.monotonic() < deadline, f"never true: {expression}; {self.faults}"
            time.sleep(0.01)

    def drawn(self) -> None:
        """Wait until the page has drawn the changes so far."""
        self.get("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def box(self, selector: str) -> list[float]:
        """Bring an element into the middle of the window; return its left, top, width and height."""
        find = f"const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
        self.get(f"(() => {{ {find} }})()")
        self.drawn()
        sides = "[b.x, b.y, b.width, b.height]"
        found: list[float] = self.get(f"(() => {{ {find} const b = e.getBoundingClientRect(); return {sides}; }})()")
        return found

    def fill(self, selector: str, value: str) -> None:
        """Give a field or a choice a value, as a user does."""
        find = f"const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
        events = "for (const name of ['input', 'change']) e.dispatchEvent(new Event(name));"
        self.get(f"(() => {{ {find} {events} }})()")
        self.drawn()

    def click(self, selector: str) -> None:
        """Click the upper left corner of an element."""
        left, top, *_ = self.box(selector)
        self.click_at(left + 5, top + 5)

    def click_at(self, x: float, y: float) -> None:
        """Click a point of the window."""
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)
        self.drawn()

    def drag(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Press at one point, release at another."""
        self.mouse("mousePressed", x0, y0)
        self.mouse("mouseMoved", (x0 + x1) / 2, (y0 + y1) / 2)
        self.mouse("mouseMoved", x1, y1)
        self.mouse("mouseReleased", x1, y1)
        self.drawn()

    def mouse(self, kind: str, x: float, y: float) -> None:
        """One event of the mouse."""
        pressed = 0 if kind == "mouseMoved" else 1
        self._call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button="left" if pressed else "none",
            buttons=1,
            clickCount=pressed,
        )

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.drawn()

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write a screenshot of the window, or of the whole page."""
        more: dict[str, Any] = {}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            self._call(
                "Emulation.setDeviceMetricsOverride",
                width=int(size["width"]),
                height=int(size["height"]),
                deviceScaleFactor=1,
                mobile=False,
            )
            self.drawn()
            more = {"captureBeyondViewport": True}
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png", **more)["data"]))

    def close(self) -> None:
        """Close the tab."""
        self._browser.listeners.remove(self._listen)
        self._browser.call("Target.closeTarget", targetId=self._target)
