"""A page of HTML as elements, attributes, words and scripts."""

import json
from html.parser import HTMLParser


class Page(HTMLParser):
    """Elements, attributes, readable text and script contents of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words: list[str] = []
        self.comments: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside.pop()

    def handle_data(self, data):
        if self._inside:
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        else:
            self.words.append(data)

    def handle_comment(self, data):
        self.comments.append(data)

    def data(self, **wanted: str) -> list:
        """The JSON blocks whose attributes are as wanted."""
        return [
            json.loads(text)
            for attributes, text in self.scripts
            if attributes.get("type") == "application/json"
            and all(attributes.get(k) == v for k, v in wanted.items())
        ]
