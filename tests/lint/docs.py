"""What the pages refer to exists: each relative link of a Markdown file names a file of the tree, and
a heading of it if there is a #; each test that a page names is one; each docs/*.md that the sources
name exists; the table of layers in docs/architecture.md is that of CMakeLists.txt."""

import re

import tree

LINK = re.compile(r"\]\(([^)\s]+)\)")
OUTSIDE = re.compile(r"[a-z]+:")  # https:, mailto:
TEST = re.compile(r"`([A-Z]\w+)\.([a-z0-9]+_\w+)`")
TEST_DEFINED = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
MENTION = re.compile(r"\bdocs/[\w/-]+\.md\b")
SOURCES = (".h", ".cc", ".py", ".txt", ".cmake")


def without_code(text):
    """Without code blocks, whose brackets are no links."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(text):
    """The names that GitHub gives to headings."""
    for heading in re.findall(r"^#+ +(.*)$", without_code(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower().strip()
        yield re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def problems_of_links(root, page, text):
    for target in LINK.findall(without_code(text)):
        if OUTSIDE.match(target):
            continue
        name, _, anchor = target.partition("#")
        path = root / page.parent / name if name else root / page
        if not path.exists():
            yield f"{page}: links {name}, which does not exist"
        elif anchor and anchor not in anchors_of(path.read_text()):
            yield f"{page}: links {target}, which has no such heading"


def tests_of(root):
    return {test for path in tree.files(root, ".cc") if path.parts[0] == "tests"
            for test in TEST_DEFINED.findall((root / path).read_text())}


def problems_of_tests(page, text, tests):
    for suite, name in sorted(set(TEST.findall(text))):
        if (suite, name) not in tests:
            yield f"{page}: names the test {suite}.{name}, which does not exist"


def problems_of_source(root, path, text):
    for page in sorted(set(MENTION.findall(text))):
        if not (root / page).exists():
            yield f"{path}: names {page}, which does not exist"


def problems_of_layers(cmake, text):
    layers = re.search(r"set\(WEFT_LAYERS\s+([^)]*)\)", cmake).group(1).split()
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    if rows != layers:
        yield f"docs/architecture.md: lists the layers {' '.join(rows)}, not {' '.join(layers)}"


def main():
    root = tree.parse_root(__doc__)
    pages = tree.files(root, ".md")
    tests = tests_of(root)
    problems = []
    for page in pages:
        text = (root / page).read_text()
        problems += problems_of_links(root, page, text)
        problems += problems_of_tests(page, text, tests)
    if (architecture := root / "docs/architecture.md").exists():
        problems += problems_of_layers((root / "CMakeLists.txt").read_text(),
                                       architecture.read_text())
    for path in tree.files(root, *SOURCES):
        if path.parts[:2] != ("tests", "lint"):
            problems += problems_of_source(root, path, (root / path).read_text())
    tree.finish(problems, len(pages))


main()
