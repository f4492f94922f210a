"""Reports to look at, and a reader of their HTML that is strict about tags."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from multimargin.report import write_report

VOID = {"meta", "br", "link", "img", "input", "hr"}


@dataclass
class Element:
    """A node of the page."""

    tag: str
    attributes: dict[str, str | None]
    children: list = field(default_factory=list)  # elements and texts

    def __iter__(self):
        """This element and all inside it."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    def all(self, tag=None, cls=None):
        return [e for e in self if (tag is None or e.tag == tag) and (cls is None or cls in e.classes)]

    def one(self, tag=None, cls=None):
        (found,) = self.all(tag, cls)
        return found

    def by_id(self, identity):
        (found,) = [element for element in self if element.attributes.get("id") == identity]
        return found

    @property
    def classes(self):
        return (self.attributes.get("class") or "").split()

    @property
    def text(self):
        """What is read, with single spaces."""
        pieces = [child.text if isinstance(child, Element) else child for child in self.children]
        return " ".join(" ".join(pieces).split())


class Reader(HTMLParser):
    """Builds the tree, and refuses tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.root = Element("document", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attributes):
        element = Element(tag, dict(attributes))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.open[-1].children.append(Element(tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def parsed(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root


def report(model, X, y, **options):
    """The page that write_report writes."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "report.html"
        write_report(model, X, y, path, **options)
        assert os.listdir(directory) == ["report.html"]
        return parsed(path.read_text(encoding="utf-8"))


def texts_and_labels(labels, n_rows=400, seed=0):
    """Made-up texts whose words depend on their label."""
    rng = np.random.default_rng(seed)
    words = [
        first + second for first in ("ka", "le", "mi", "no", "ru") for second in ("bar", "dil", "fos", "gen", "tup")
    ]
    of_label = rng.dirichlet(np.full(len(words), 0.1), len(labels))
    rows, given = [], []
    for _ in range(n_rows):
        label = rng.integers(len(labels))
        likely = 0.7 * of_label[label] + 0.3 / len(words)
        rows.append(" ".join(rng.choice(words, rng.integers(5, 30), p=likely)))
        given.append(labels[label])
    return rows, given
