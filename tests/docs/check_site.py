"""Checks a built site: every link within it leads to a file, and to an anchor of it if there is a #;
no page makes a browser load anything from elsewhere.

    check_site.py build/docs/site"""

import html.parser
import pathlib
import re
import sys
import urllib.parse

# What a browser loads without being asked, by element: the attribute that names it.
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src",
          "object": "data", "embed": "src", "video": "src", "audio": "src", "input": "src",
          "use": "href", "image": "href"}
IN_STYLE = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


class Page(html.parser.HTMLParser):
    """What a page links, loads and can be linked at."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(values[name])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if values.get(LOADED.get(tag, "")) and not (tag == "link" and "canonical" in
                                                   values.get("rel", "")):
            self.loads.append(values[LOADED[tag]])
        if "style" in values:
            self.loads += loads_of_style(values["style"])


def loads_of_style(text: str) -> list[str]:
    return [a or b for a, b in IN_STYLE.findall(text)]


def is_elsewhere(target: str) -> bool:
    parts = urllib.parse.urlsplit(target)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


class Site:
    def __init__(self, root: pathlib.Path):
        self.root = root
        self.pages = {p.relative_to(root): Page(p.read_text(errors="replace"))
                      for p in sorted(root.rglob("*.html"))}
        self.styles = {p.relative_to(root): loads_of_style(p.read_text(errors="replace"))
                       for p in sorted(root.rglob("*.css"))}

    def target_of(self, page: pathlib.Path, path: str) -> pathlib.Path | None:
        """The file, relative to the site, that a link leads to."""
        there = (self.root / page.parent / urllib.parse.unquote(path)).resolve()
        if there.is_dir():
            there /= "index.html"
        inside = there.is_file() and there.is_relative_to(self.root.resolve())
        return there.relative_to(self.root.resolve()) if inside else None

    def problems_of_link(self, page: pathlib.Path, link: str) -> list[str]:
        parts = urllib.parse.urlsplit(link)
        if parts.scheme or parts.netloc:
            return []
        target = self.target_of(page, parts.path) if parts.path else page
        if target is None:
            return [f"{page}: links {link}, which does not exist"]
        anchor = urllib.parse.unquote(parts.fragment)
        if anchor and target in self.pages and anchor not in self.pages[target].anchors:
            return [f"{page}: links {link}, which has no such anchor"]
        return []

    def problems_of_load(self, page: pathlib.Path, target: str) -> list[str]:
        if is_elsewhere(target):
            return [f"{page}: loads {target} from elsewhere"]
        path = urllib.parse.urlsplit(target).path
        if path and not target.startswith("data:") and self.target_of(page, path) is None:
            return [f"{page}: loads {target}, which does not exist"]
        return []

    def problems(self) -> list[str]:
        found: list[str] = []
        for name, page in self.pages.items():
            for link in dict.fromkeys(page.links):
                found += self.problems_of_link(name, link)
            for target in dict.fromkeys(page.loads):
                found += self.problems_of_load(name, target)
        for name, loads in self.styles.items():
            for target in dict.fromkeys(loads):
                found += self.problems_of_load(name, target)
        return found


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: check_site.py SITE", file=sys.stderr)
        return 2
    site = Site(pathlib.Path(sys.argv[1]))
    problems = site.problems()
    print("\n".join(problems + [f"{len(site.pages)} pages checked, {len(problems)} problems"]))
    return 1 if problems or not site.pages else 0


if __name__ == "__main__":
    sys.exit(main())
