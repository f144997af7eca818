"""Every header opens with a paragraph of comment (what it is for, who owns it, which thread may
call it, how long it lives) and guards itself with #pragma once."""

import tree

SHORTEST_PARAGRAPH = 40  # characters; less than this says nothing


def problems_of(path, text):
    paragraph = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        paragraph.append(line.lstrip("/ ").strip())
    if len(" ".join(paragraph)) < SHORTEST_PARAGRAPH:
        yield f"{path}: does not open with a paragraph that says what it is for"
    if "\n#pragma once\n" not in text:
        yield f"{path}: has no #pragma once"


def main():
    root = tree.parse_root(__doc__)
    paths = [p for p in tree.files(root, ".h") if p.parts[0] in ("src", "include")]
    problems = [problem for p in paths for problem in problems_of(p, (root / p).read_text())]
    tree.finish(problems, len(paths))


main()
