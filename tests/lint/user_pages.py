"""Pages for users speak to users: README.md, docs/tutorial, docs/how-to, docs/reference,
docs/explanation, some pages of docs/ itself, the public headers and the examples name no requirement and no figure of the
documents behind weft. And each block of their code says what it is, so that what is a command is run
(tests/docs): `console` and `sh` are commands, `text` is what is neither code nor a command."""

import re

import tree

FOLDERS = ("tutorial", "how-to", "reference", "explanation")
PAGES = ("README.md", "docs/index.md", "docs/install.md", "docs/ci.md", "docs/clients.md")
ENGINEERS = (
    (re.compile(r"(?<![\w.:/-])(?:A[1-9]|A1\d|A2[0-4]|B[1-4]\.\d{1,2})(?![\w-]|\.\d)"), "a requirement"),
    (re.compile(r"\bfigures? \d|\bFIG\. ?\d", re.IGNORECASE), "a figure"),
    (re.compile(r"\bblocks? \d{3}\b"), "a block of a figure"),
    (re.compile(r"\bseed [AB]\b|\b[Tt]he seed's\b|\bseed\.md\b"), "the seed"),
)
LANGUAGES = ("console", "sh", "text", "c", "cpp", "cmake", "python", "yaml", "dockerfile", "json")
FENCE = re.compile(r"^ *```(.*)$")


def is_for_users(path):
    return (path.parts[:1] == ("docs",) and path.parts[1] in FOLDERS or str(path) in PAGES or
            path.parts[:2] == ("include", "weft") or path.parts[:1] == ("examples",))


def problems_of_words(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in ENGINEERS:
            if found := pattern.search(line):
                yield f"{path}:{number}: '{found[0]}' names {what}; that is for engineers' pages"


def problems_of_blocks(path, text):
    inside, before = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if fence := FENCE.match(line):
            if not inside and fence[1] not in LANGUAGES:
                yield (f"{path}:{number}: the block is '{fence[1]}', which is none of "
                       f"{', '.join(LANGUAGES)}")
            inside = not inside
        elif not inside and re.match(r"(?: {4,}|\t)[$\w]", line) and before == "":
            yield f"{path}:{number}: code by indentation says not what it is; use a fence"
        before = line.strip()


def main():
    root = tree.parse_root(__doc__)
    paths = [path for path in tree.files(root, ".md", ".h", ".cc") if is_for_users(path)]
    problems = []
    for path in paths:
        text = (root / path).read_text()
        problems += problems_of_words(path, text)
        if path.suffix == ".md":
            problems += problems_of_blocks(path, text)
    tree.finish(problems, len(paths))


main()
