"""Makes the folder that mkdocs builds the site from: the pages of docs/, some files of the project
that pages link, and the navigation. The order of the navigation is that in which each folder's
index.md links its pages; a page that its index does not link is an error.

    stage.py --out build/docs"""

import argparse
import pathlib
import posixpath
import re
import shutil
import sys

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
OUTSIDE = re.compile(r"[a-z]+:|#")
# What tests/docs/page_blocks.py reads and a reader need not see.
NOTE = re.compile(r"^ *<!-- (?:file|not run|status|listens|stays)\b.*-->\n", re.MULTILINE)
SECTIONS = {"tutorial": "Tutorial", "how-to": "How-to", "reference": "Reference",
            "explanation": "Explanation", "engineering": "Engineering"}
# Pages that are elsewhere on the site than in the project: those for engineers lie in docs/ itself, and
# these are not for them, or lie outside.
PLACES = {"docs/index.md": "index.md", "docs/ci.md": "ci.md", "docs/install.md": "install.md",
          "docs/clients.md": "reference/clients.md", "docs/engineering.md": "engineering/index.md",
          "CONTRIBUTING.md": "engineering/contributing.md",
          "CHANGELOG.md": "engineering/changelog.md"}
FOR_ENGINEERS = re.compile(r"docs/([^/]+\.(md|svg)|decisions/.*)")


class StageError(Exception):
    """A page cannot be a part of the site."""


def slug(value: str, separator: str) -> str:
    """The name that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", value.lower().strip()).replace(" ", separator)


def api_page(header: str) -> str:
    """Where Doxygen writes about include/weft/<header>."""
    return "reference/api/" + header.replace("_", "__").replace(".", "_8") + ".html"


def place_of(target: str) -> str | None:
    """Where a file of the project, by its path, is in the site."""
    if target in PLACES:
        return PLACES[target]
    if FOR_ENGINEERS.fullmatch(target):
        return "engineering/" + target.removeprefix("docs/")
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if target.startswith("include/weft/"):
        return api_page(posixpath.basename(target))
    if target.startswith("examples/") and target.endswith(".cc"):
        return "reference/" + target.removesuffix(".cc") + ".md"
    return None


def staged(text: str, source: str, place: str) -> str:
    """The page's text with links that hold in the site. Of a link to another file of the project its
    text is left."""
    def changed(link: re.Match[str]) -> str:
        if OUTSIDE.match(link[2]):
            return link[0]
        name, mark, anchor = link[2].partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        if (there := place_of(target)) is None:
            return link[1]
        there = posixpath.relpath(there, posixpath.dirname(place) or ".")
        return f"[{link[1]}]({there}{mark}{anchor})"
    return LINK.sub(changed, NOTE.sub("", text))


def title_of(text: str, place: str) -> str:
    if heading := re.match(r"# +(.+)", text):
        return re.sub(r"`", "", heading[1]).replace('"', "'")
    raise StageError(f"{place} does not begin with a heading")


def linked_by(text: str, place: str) -> list[str]:
    """The pages that a page links, in order, once each."""
    targets = [posixpath.normpath(posixpath.join(posixpath.dirname(place), t.partition("#")[0]))
               for _, t in LINK.findall(text) if not OUTSIDE.match(t)]
    return list(dict.fromkeys(t for t in targets if t.endswith(".md")))


def navigation(pages: dict[str, str]) -> list[str]:
    lines = ["nav:", '  - "Home": index.md']
    lines += [f'  - "{title_of(pages[place], place)}": {place}'
              for place in sorted(pages) if "/" not in place and place != "index.md"]
    seen = set(re.findall(r"\S+\.md$", "\n".join(lines), re.MULTILINE))
    for folder, title in SECTIONS.items():
        index = f"{folder}/index.md"
        places = [index, *(p for p in linked_by(pages[index], index)
                           if p.startswith(folder + "/") and p != index)]
        lines.append(f'  - "{title}":')
        lines += [f'      - "{title_of(pages[p], p)}": {p}' for p in places]
        seen.update(places)
    deep = re.compile(r"^reference/examples/|^engineering/decisions/\d")
    for place in sorted(set(pages) - seen):
        if not deep.match(place):
            raise StageError(f"{place}: no index.md links it")
    return lines


def read_pages(root: pathlib.Path) -> dict[str, str]:
    """Each page of the site by its place, with the links of the site."""
    sources = {str(p.relative_to(root)): p for p in sorted((root / "docs").rglob("*.md"))}
    sources |= {name: root / name for name in PLACES if (root / name).exists()}
    pages: dict[str, str] = {}
    for source, path in sources.items():
        if (place := place_of(source)) is not None:
            pages[place] = staged(path.read_text(), source, place)
    for example in sorted((root / "examples").glob("*.cc")):
        pages[f"reference/examples/{example.stem}.md"] = (
            f"# {example.name}\n\n```cpp\n{example.read_text()}```\n")
    return pages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    site = options.root / "docs/site"
    target = options.out / "pages"
    shutil.rmtree(target, ignore_errors=True)
    try:
        pages = read_pages(options.root)
        nav = navigation(pages)
    except StageError as problem:
        print(problem, file=sys.stderr)
        return 1
    for place, text in pages.items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(text)
    shutil.copy(site / "style.css", target)
    for picture in sorted((options.root / "docs").glob("*.svg")):
        shutil.copy(picture, target / str(place_of(f"docs/{picture.name}")))
    (options.out / "mkdocs.yml").write_text(
        (site / "mkdocs.yml").read_text() + "\n".join(nav) + "\n")
    print(f"{len(pages)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
