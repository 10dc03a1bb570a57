#!/usr/bin/env python3
"""Makes reports, and looks at them in a headless Chromium.

    report_browser.py [STROBE]        the program; without it, cargo builds one

A page of one run, one of several, and the X-ray of a drive of several dies: nothing may be written to the console, nothing
may be wider than a phone of 360 pixels. Screenshots are in target/report-browser: light, dark, phone and grey.
Without Chromium the test is skipped, aloud.
"""
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
# Waits until the X-ray is there, then says how wide everything is and what was written to the console.
PROBE = """<script>
window.wrong = [];
for (const kind of ["error", "warn"]) console[kind] = (...what) => window.wrong.push(what.join(" "));
addEventListener("error", event => window.wrong.push(event.message));
addEventListener("unhandledrejection", event => window.wrong.push(String(event.reason)));
addEventListener("load", () => {
  let turns = 0;
  const look = () => {
    const xray = document.getElementById("xray");
    if (xray && xray.dataset.ready !== "yes" && turns++ < 100) return setTimeout(look, 50);
    document.querySelectorAll("button:not(.save)").forEach(button => button.click());
    if (xray && xray.showFrame) xray.showFrame(+xray.querySelector("input").max);
    document.querySelectorAll("[data-by=valid], .view:first-child").forEach(button => button.click());
    const go = document.querySelector(".go");
    if (go && go.textContent === "Pause") go.click();
    const said = document.createElement("pre");
    said.id = "probe";
    said.hidden = true;
    said.textContent = JSON.stringify({ wrong: window.wrong, ready: !xray || xray.dataset.ready === "yes",
      width: document.documentElement.scrollWidth, window: innerWidth, figures: document.querySelectorAll("figure").length });
    document.body.append(said);
  };
  look();
});
</script>"""


def browser(chromium, page, width, height, *more):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
             "--virtual-time-budget=20000", f"--window-size={width},{height}"]
    done = subprocess.run([chromium, *flags, *more, page.as_uri()], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{chromium} failed: {done.stderr[-2000:]}")
    return done.stdout


def look(chromium, page, name, folder):
    """Opens `page` at 360 pixels, in a frame, as a window cannot be that narrow; then takes pictures of it."""
    text = page.read_text()
    probed = folder / f"{name}-probed.html"
    probed.write_text(text.replace("<head>", "<head>" + PROBE, 1))
    frame = folder / f"{name}-frame.html"
    frame.write_text(f"""<!DOCTYPE html><body style="margin:0"><iframe width=360 height=5200 style="border:0" src="{probed.name}">
</iframe><script>
const frame = document.querySelector("iframe");
const look = () => {{
  const said = frame.contentDocument && frame.contentDocument.getElementById("probe");
  if (said) document.body.append(Object.assign(document.createElement("pre"), {{ id: "said", textContent: said.textContent }}));
  else setTimeout(look, 50);
}};
look();
</script>""")
    dom = browser(chromium, frame, 600, 800, "--dump-dom", "--allow-file-access-from-files")
    if 'id="said">' not in dom:
        sys.exit(f"{name}: the page did not come to its end")
    said = json.loads(dom.split('id="said">')[1].split("</pre>")[0].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    print(f"{name}: {page.stat().st_size:,} bytes, {said}")
    if said["wrong"]:
        sys.exit(f"{name}: the console says {said['wrong']}")
    if not said["ready"]:
        sys.exit(f"{name}: the X-ray did not come")
    if said["width"] > 360 or said["window"] != 360:
        sys.exit(f"{name}: {said['width']} pixels wide on a phone of 360")
    if said["figures"] == 0:
        sys.exit(f"{name}: no figures")
    browser(chromium, probed, 1280, 1900, f"--screenshot={OUT / name}-light.png")
    browser(chromium, probed, 1280, 1900, f"--screenshot={OUT / name}-dark.png", "--blink-settings=preferredColorScheme=0")
    browser(chromium, frame, 360, 2600, f"--screenshot={OUT / name}-phone.png", "--allow-file-access-from-files")
    grey = folder / f"{name}-grey.html"
    grey.write_text(probed.read_text().replace("</head>", "<style>html{filter:grayscale(1)}</style></head>", 1))
    browser(chromium, grey, 1280, 1900, f"--screenshot={OUT / name}-grey.png")


def main():
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        # Where nothing may be skipped, a browser is not demanded: it is larger than all else that is.
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
            "quickstart": ["examples/quickstart.toml"],
            "skewed": ["examples/hot-cold.toml", *small, "--set", "run.measure=1x", "--set", "run.warmup=1x"],
            "dies": ["examples/latency-under-load.toml", "--set", "run.measure=2s", "--set", "run.interval=50ms",
                     "--set", "run.latency_bins=true"],
        }
        for name, arguments in runs.items():
            run("run", *arguments, "--set", "run.xray=60", "--quiet", "--json", str(folder / f"{name}.json"))
        pages = {name: [name] for name in runs} | {"several": ["quickstart", "dies"]}
        for name, of in pages.items():
            page = folder / f"{name}.html"
            run("report", *[str(folder / f"{one}.json") for one in of], "--out", str(page))
            look(chromium, page, name, folder)
    print(f"test result: ok. {len(pages)} passed; 0 failed; 0 ignored")


main()
