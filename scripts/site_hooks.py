"""Hooks of MkDocs: pages from outside docs/, and links to them.

Links in our Markdown name files of the repository, so editors and forges can follow them. Here a link becomes a link to the
page of its file. If the file has no page, the link becomes its text and the file's path. Links to missing files stay
unchanged, and MkDocs refuses them.
"""
import base64
import html
import json
import os
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
#: Pages from outside docs/, with their paths in the site.
OUTSIDE = {"CONTRIBUTING.md": "contributing/CONTRIBUTING.md", "CHANGELOG.md": "contributing/CHANGELOG.md"}
#: Notebooks with output, as run by the tests. Without them the pages have only code.
RUN = Path(os.environ.get("STROBE_NOTEBOOKS", ROOT / "target" / "notebooks"))
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def notebooks():
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def source_of(cell):
    return "".join(cell["source"])


def run_or_not(path):
    """Returns the notebook, and True if it has output. Output counts only if all cells are unchanged since its run."""
    notebook = json.loads(path.read_text())
    done = RUN / path.name
    if done.exists():
        run = json.loads(done.read_text())
        if [source_of(cell) for cell in run["cells"]] == [source_of(cell) for cell in notebook["cells"]]:
            return run, True
    return notebook, False


def shown(output):
    """Returns the output of a cell as Markdown."""
    data = output.get("data", {})
    if output["output_type"] == "stream" and output["name"] == "stdout":
        text = "".join(output["text"])
    elif "image/png" in data:
        png = "".join(data["image/png"].split())
        base64.b64decode(png, validate=True)
        return f'<img alt="figure drawn by the cell" src="data:image/png;base64,{png}">\n\n'
    elif "text/plain" in data:
        text = "".join(data["text/plain"])
    else:
        return ""
    return f'<pre class="shown"><code>{html.escape(text.rstrip())}</code></pre>\n\n'


def page_of(path):
    notebook, has_run = run_or_not(path)
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            # Notebooks name pages without links, because they also run without a clone.
            parts.append(re.sub(r"`(docs/[\w/-]+\.md)`", r"[\1](../\1)", source_of(cell)) + "\n\n")
        else:
            parts.append(f"```python\n{source_of(cell)}\n```\n\n")
            parts += [shown(output) for output in cell["outputs"]]
    whence = f"The notebook is `notebooks/{path.name}`."
    if not has_run:
        whence += " Its output is missing: it was not run before this page was built."
    return "".join(parts) + f"---\n\n*{whence}*\n"


def title_of(path):
    first = source_of(json.loads(path.read_text())["cells"][0])
    title, _, rest = first.partition("\n")
    return title.removeprefix("# "), rest.strip().split("\n\n")[0]


def index():
    lines = [
        "# Notebooks\n\nExperiments to read, run and change, and a course of four lectures. They are in the folder `notebooks`.",
        "The tests run them and check the claims of their texts.\n\n```sh\npip install . matplotlib jupyter",
        "jupyter lab notebooks\n```\n",
    ]
    for path in notebooks():
        title, about = title_of(path)
        lines.append(f"**[{title}]({path.stem}.md).** {about}\n")
    return "\n".join(lines)


def on_files(files, config):
    made = {f"notebooks/{path.stem}.md": page_of(path) for path in notebooks()}
    made["notebooks/index.md"] = index()
    made |= {page: (ROOT / path).read_text() for path, page in OUTSIDE.items()}
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    return files


TABLE = re.compile(r"<table>.*?</table>", re.S)
HEAD = re.compile(r"<th[^>]*>(.*?)</th>", re.S)
CELL = re.compile(r"<td([^>]*)>")
#: Pages with tables of keys.
KEYS = {"REFERENCE.md", "RESULT.md"}
#: Least number of columns of a table that does not fit a phone.
WIDE = 4


def labelled(table, kind):
    """Returns a wide table with a class, and with the column name in each cell, for narrow screens."""
    names = [re.sub(r"<[^>]*>", "", name).strip() for name in HEAD.findall(table)]
    if len(names) < WIDE:
        return table
    rows = table.split("<tr>")
    for at, row in enumerate(rows):
        column = iter(names)
        rows[at] = CELL.sub(lambda cell: f'<td{cell[1]} data-column="{next(column, "")}">', row)
    return "<tr>".join(rows).replace("<table>", f'<table class="{kind}">', 1)


def on_page_content(content, page, config, files):
    kind = "keys" if page.file.src_uri in KEYS else "wide"
    return TABLE.sub(lambda table: labelled(table[0], kind), content)


def places(files):
    """Returns the file in the repository of each page, and the page of each file."""
    of_page = {file.src_uri: "docs/" + file.src_uri for file in files}
    of_page |= {page: path for path, page in OUTSIDE.items()}
    of_page |= {f"notebooks/{path.stem}.md": f"notebooks/{path.name}" for path in notebooks()}
    return of_page, {path: page for page, path in of_page.items()}


def on_page_markdown(markdown, page, config, files):
    of_page, of_path = places(files)
    here = of_page[page.file.src_uri]

    def follow(match):
        mark, text, link = match.groups()
        if re.match(r"[a-z]+:|#", link) or page.file.src_uri == "notebooks/index.md":
            return match[0]
        target, _, anchor = link.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        if path in of_path:
            place = posixpath.relpath(of_path[path], posixpath.dirname(page.file.src_uri) or ".")
            return f"{mark}[{text}]({place}{'#' + anchor if anchor else ''})"
        if (ROOT / path).exists() and not path.startswith(".."):
            return text if path.strip("/") in text else f"{text} (`{path}`)"
        return match[0]

    # Links in code blocks stay unchanged.
    parts, at = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(follow, markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, LINK.sub(follow, markdown[at:])])
