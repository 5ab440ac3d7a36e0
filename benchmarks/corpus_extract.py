"""What extraction keeps and how fast it is, beside its peers: one run, the same pages, one core.

    python benchmarks/corpus_extract.py [--data ../shared/data/warc] [--pages 150]

First table: recall of the formulas in tests/corpus/formulas.jsonl, token F1 of the text, pages a second; for `corpus`,
Resiliparse alone and trafilatura, on decoded HTML. Second table: from a WARC file to text, for `corpus` and for
datatrove's WarcReader and Trafilatura extractor (pip install "mathmill[datatrove]"; it needs the library libmagic).
Times are CPU seconds, of child processes too, so that other work on the machine does not count; all of it runs on one
core's worth of processes.
"""

import argparse
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from html import unescape
from importlib.metadata import version
from pathlib import Path

import lxml.html
import trafilatura
from resiliparse.extract.html2text import extract_plain_text

from corpus.extract import html_to_text
from corpus.warc import Record, read_records

ROOT = Path(__file__).resolve().parents[1]
LABELS = ROOT / "tests" / "corpus" / "formulas.jsonl"
# Where each kind of page has its content, as its own template says; the reference text is what lies in there …
CONTENT = "//*[@role='main'] | //div[@class='contents'] | //div[@id='mw-content-text'] | //body"
# … without what no reader takes for content.
FURNITURE = (
    "//script | //style | //nav | //noscript | //a[@class='headerlink'] | //*[starts-with(@class, 'chlink')]"
    " | //*[@role='navigation'] | //*[@class='mw-editsection'] | //table[contains(@class, 'navbox')] | //annotation"
)
DATATROVE = """
import json, sys
from datatrove.pipeline.extractors import Trafilatura
from datatrove.pipeline.readers import WarcReader
def main():
    texts = {d.metadata["url"]: d.text for d in Trafilatura(timeout=60).run(WarcReader(sys.argv[1]).run())}
    json.dump(texts, open(sys.argv[2], "w"))
if __name__ == "__main__":
    main()
"""
OURS = """
import json, sys
from corpus.config import ReadConfig
from corpus.crawl import extract_pages
pages = extract_pages(sys.argv[1] + "/pages.warc.gz", ReadConfig(), lambda reason: None)
json.dump({record.url: text for record, text in pages}, open(sys.argv[2], "w"))
"""


def squeezed(text: str) -> str:
    r"""Text without what typesets nothing: white space, dollars, \\displaystyle, braces around one character."""
    text = re.sub(r"\\displaystyle|[\s$]+", "", text)
    return re.sub(r"\{(\w)\}", r"\1", text)


def found(formulas: list[str], text: str) -> int:
    inside = squeezed(text)
    return sum(squeezed(f) in inside for f in formulas)


def token_f1(text: str, reference: str) -> float:
    ours, theirs = Counter(re.findall(r"\w+", text)), Counter(re.findall(r"\w+", reference))
    common = (ours & theirs).total()
    return 2 * common / (ours.total() + theirs.total()) if common else 0.0


def reference_text(html: str) -> str:
    """The text of the page's content element, by lxml: formulas in it as they are written in the source."""
    tree = lxml.html.document_fromstring(html)
    for element in tree.xpath(FURNITURE):
        element.drop_tree()
    for image in tree.iter("img"):
        image.tail = f" {image.get('alt', '')} {image.tail or ''}"
    content = next(iter(sorted(tree.xpath(CONTENT), key=lambda e: e.tag == "body")))
    return " ".join(content.itertext())


def labelled_pages(data: Path) -> tuple[dict[str, list[str]], dict[str, Record]]:
    """Formulas and record by URL, for the pages that have labels."""
    formulas: dict[str, list[str]] = defaultdict(list)
    files = set()
    for line in LABELS.read_text().splitlines():
        label = json.loads(line)
        formulas[label["url"]].append(label["formula"])
        files.add(label["file"])
    records = (r for f in sorted(files) for r in read_records(str(data / f), 5_000_000, lambda reason: None))
    return formulas, {r.url: r for r in records if r.url in formulas}


def compare_extractors(formulas: dict[str, list[str]], pages: dict[str, Record]) -> None:
    sources = {url: record.content.decode("utf-8", "replace") for url, record in pages.items()}
    references = {url: reference_text(html) for url, html in sources.items()}
    total = sum(map(len, formulas.values()))
    extractors: dict[str, Callable[[str], str]] = {
        "corpus": html_to_text,
        f"Resiliparse {version('Resiliparse')}": lambda html: str(extract_plain_text(html, main_content=True)),
        f"trafilatura {trafilatura.__version__}": lambda html: trafilatura.extract(html) or "",
    }
    print(
        f"{total} formulas of {len(pages)} pages; {sum(map(len, sources.values())) / len(pages) / 1e3:.0f} kB a page\n"
    )
    print("| extractor | formulas kept | token F1 | pages/s | ratio |\n|---|---|---|---|---|")
    base = 0.0
    for name, extract in reversed(extractors.items()):
        started = time.process_time()
        texts = {url: extract(html) for url, html in sources.items()}
        rate = len(texts) / (time.process_time() - started)
        base = base or rate
        kept = sum(found(formulas[url], text) for url, text in texts.items())
        f1 = sum(token_f1(text, references[url]) for url, text in texts.items()) / len(texts)
        print(f"| {name} | {kept / total:.1%} | {f1:.3f} | {rate:.0f} | {rate / base:.1f} |")


def write_archive(path: Path, records: list[Record]) -> None:
    """As in Common Crawl: a gzip member for each record, with the type that the crawler found."""
    with open(path, "wb") as out:
        for record in records:
            body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + record.content
            head = (
                f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{record.offset:032x}>\r\n"
                f"WARC-Target-URI: {record.url}\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n"
                "WARC-Identified-Payload-Type: text/html\r\nContent-Type: application/http; msgtype=response\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            out.write(gzip.compress(head.encode() + body + b"\r\n\r\n"))


def compare_pipelines(formulas: dict[str, list[str]], records: list[Record]) -> None:
    total = sum(map(len, formulas.values()))
    print(f"\nFrom WARC to text, {len(records)} pages\n")
    print("| pipeline | pages with text | formulas kept | CPU s | pages/s | ratio |\n|---|---|---|---|---|---|")
    base = 0.0
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "in"
        archive.mkdir()
        write_archive(archive / "pages.warc.gz", records)
        runs = ((f"datatrove {version('datatrove')}", DATATROVE), ("corpus", OURS))
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        for name, code in runs:
            script, out = Path(folder) / "run.py", Path(folder) / "texts.json"
            script.write_text(code)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, script, archive, out], check=True, stderr=subprocess.DEVNULL, env=environment
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            texts = {unescape(url): text for url, text in json.loads(out.read_text()).items()}
            kept = sum(found(f, texts.get(url, "")) for url, f in formulas.items())
            rate = len(records) / seconds
            base = base or rate
            cells = f"{len(texts)} | {kept / total:.1%} | {seconds:.1f} | {rate:.1f} | {rate / base:.1f}"
            print(f"| {name} | {cells} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = ROOT.parent / "shared" / "data" / "warc"
    parser.add_argument("--data", type=Path, default=data, help="folder with docs-math.warc.gz and web-pages.warc.gz")
    parser.add_argument("--pages", type=int, default=150, help="pages of the second table (default: 150)")
    arguments = parser.parse_args()
    if not (arguments.data / "docs-math.warc.gz").is_file():
        parser.error(f"--data: {arguments.data} has no docs-math.warc.gz, the pages that the labels are of")
    formulas, pages = labelled_pages(arguments.data)
    compare_extractors(formulas, pages)
    others = read_records(str(arguments.data / "docs-math.warc.gz"), 5_000_000, lambda reason: None)
    more = [r for r, _ in zip(others, range(arguments.pages), strict=False) if r.url not in pages]
    compare_pipelines(formulas, [*pages.values(), *more][: arguments.pages])


if __name__ == "__main__":
    main()
