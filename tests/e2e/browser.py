"""A headless Chromium, driven over its DevTools protocol with nothing but the standard library.

`python -m tests.e2e.browser PAGE PICTURE.png [--width N] [--dark]` takes the whole of a report as a picture.
"""

import argparse
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlparse

NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable():
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page. `console` holds what the page logged as an error, and exceptions nobody caught."""

    def __init__(self, folder: Path):
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-port=0",
        ]
        self.process = subprocess.Popen(
            [executable(), *flags, f"--user-data-dir={folder}", "about:blank"], stderr=subprocess.DEVNULL
        )
        self.console: list[str] = []
        self._sent = 0
        self._socket = _web_socket(_page_address(folder))
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self._socket.close()
        self.process.kill()
        self.process.wait()

    def call(self, method, **parameters):
        self._sent += 1
        _send(self._socket, json.dumps({"id": self._sent, "method": method, "params": parameters}))
        while True:
            message = json.loads(_receive(self._socket))
            if message.get("id") == self._sent:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message):
        said = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.console.append(said["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif message.get("method") == "Runtime.consoleAPICalled" and said["type"] in ("error", "assert"):
            self.console.append(str([argument.get("value") for argument in said["args"]]))
        elif message.get("method") == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.console.append(said["entry"]["text"])

    def open(self, path, width=1200, height=900, dark=False):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.absolute().as_uri())
        self.until(
            "document.readyState === 'complete' && document.querySelectorAll('#leaderboard tbody tr').length > 0"
        )

    def ask(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.ask(condition):
            assert time.monotonic() < end, f"never came true: {condition}"
            time.sleep(0.1)

    def press(self, key, text=""):
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        common = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        typed = text or {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyDown", text=typed, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, path, whole=False):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


def _page_address(folder):
    end = time.monotonic() + 60
    file = folder / "DevToolsActivePort"
    while time.monotonic() < end:
        if file.is_file() and (lines := file.read_text().splitlines()):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list", timeout=10) as answer:
                    pages = [page for page in json.load(answer) if page["type"] == "page"]
                if pages:
                    return pages[0]["webSocketDebuggerUrl"]
            except OSError:
                pass
        time.sleep(0.1)
    raise TimeoutError("Chromium did not start")


def _web_socket(address):
    place = urlparse(address)
    made = socket.create_connection((place.hostname, place.port), timeout=120)
    key = base64.b64encode(os.urandom(16)).decode()
    made.sendall(
        f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += made.recv(1)
    assert b" 101 " in answer, answer
    return made


def _send(made, text):
    """One masked text frame."""
    content = text.encode()
    size = len(content)
    head = bytes([0x81])
    head += (
        bytes([0x80 | size])
        if size < 126
        else bytes([0xFE]) + size.to_bytes(2, "big")
        if size < 65536
        else bytes([0xFF]) + size.to_bytes(8, "big")
    )
    mask = os.urandom(4)
    made.sendall(head + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(content)))


def _receive(made):
    """One text message, put together from its frames."""
    whole = b""
    while True:
        first, second = _exactly(made, 2)
        size = second & 0x7F
        if size > 125:
            size = int.from_bytes(_exactly(made, 2 if size == 126 else 8), "big")
        whole += _exactly(made, size)
        if first & 0x80:
            return whole.decode()


def _exactly(made, size):
    parts = b""
    while len(parts) < size:
        part = made.recv(size - len(parts))
        assert part, "Chromium closed the connection"
        parts += part
    return parts


def parser():
    made = argparse.ArgumentParser(prog="python -m tests.e2e.browser", description="Take a report as a picture.")
    made.add_argument("page", type=Path, metavar="PAGE", help="report.html")
    made.add_argument("picture", type=Path, metavar="PICTURE", help="the PNG file to write")
    made.add_argument("--width", type=int, default=1200, help="of the window, in pixels (default: %(default)s)")
    made.add_argument("--dark", action="store_true", help="as someone sees it who prefers the dark")
    return made


def main():
    args = parser().parse_args()
    if executable() is None:
        parser().error("no Chromium on this machine: install Debian's package chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(Path(folder))
        try:
            browser.open(args.page, width=args.width, dark=args.dark)
            browser.until("document.getElementById('chart-popularity').data !== undefined")
            browser.screenshot(args.picture, whole=True)
        finally:
            browser.close()
        assert not browser.console, browser.console


if __name__ == "__main__":
    main()
