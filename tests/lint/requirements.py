"""docs/requirements.md tells the truth: it has every id once, its state is `done` or `open`, and an
id that is done names files that exist and tests that exist, run, and mention the id."""

import re

import tree

IDS = ([f"A{n}" for n in range(1, 23)] + [f"B1.{n}" for n in range(1, 10)] +
       [f"B2.{n}" for n in range(1, 7)] + [f"B3.{n}" for n in range(1, 13)] +
       [f"B4.{n}" for n in range(1, 15)])
STATES = ("done", "open")
COLUMNS = ["id", "what", "state", "implemented in", "shown by"]

TICKED = re.compile(r"`([^`]+)`")
SHOWN_BY = re.compile(r"^(?P<path>\S+): (?P<suite>\w+)\.(?P<name>\w+)$")


def read_rows(text):
    """Yields the cells of each table row that stands under the known head."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|"):
            inside = False
        elif cells == COLUMNS:
            inside = True
        elif inside and not set(line) <= set("|-: "):
            yield cells


def text_of_test(source, suite, name):
    """The test's text with the comment right above it, or None. A body of several lines ends at the
    first line that is a lone closing brace: the formatter sees to that."""
    head = re.search(r"^(TYPED_)?TEST(_F|_P)?\(\s*%s\s*,\s*%s\s*\)" % (suite, name), source,
                     re.MULTILINE)
    if not head:
        return None
    above = re.search(r"(^//.*\n)*\Z", source[:head.start()], re.MULTILINE).group(0)
    first_line = source[head.start():].split("\n", 1)[0]
    if first_line.endswith("}"):
        return above + first_line
    return above + source[head.start():].split("\n}\n", 1)[0]


def mentions(text, requirement):
    return re.search(r"(?<![\w.])%s(?!\w|\.\d)" % re.escape(requirement), text) is not None


def problems_of_done(root, requirement, implemented, shown):
    paths, tests = TICKED.findall(implemented), TICKED.findall(shown)
    if not paths:
        yield f"{requirement}: is done, but names no file that implements it"
    if not tests:
        yield f"{requirement}: is done, but names no test that shows it"
    for path in paths:
        if not (root / path).exists():
            yield f"{requirement}: {path} does not exist"
    for test in tests:
        match = SHOWN_BY.match(test)
        if not match:
            yield f"{requirement}: '{test}' is not of the form path/to/file_test.cc: Suite.name"
            continue
        if not (root / match["path"]).is_file():
            yield f"{requirement}: {match['path']} does not exist"
            continue
        body = text_of_test((root / match["path"]).read_text(), match["suite"], match["name"])
        if match["name"].startswith("DISABLED_") or match["suite"].startswith("DISABLED_"):
            yield f"{requirement}: {test} is disabled"
        elif body is None:
            yield f"{requirement}: {match['path']} has no test {match['suite']}.{match['name']}"
        elif not mentions(body, requirement):
            yield f"{requirement}: {test} does not mention {requirement}"


def main():
    root = tree.parse_root(__doc__)
    problems, seen = [], []
    for cells in read_rows((root / "docs/requirements.md").read_text()):
        if len(cells) != len(COLUMNS):
            problems.append(f"{cells[0]}: the row has {len(cells)} cells, not {len(COLUMNS)}")
            continue
        requirement, what, state, implemented, shown = cells
        seen.append(requirement)
        if not what:
            problems.append(f"{requirement}: says nothing")
        if state not in STATES:
            problems.append(f"{requirement}: state is '{state}', not one of {', '.join(STATES)}")
        if state == "done":
            problems += problems_of_done(root, requirement, implemented, shown)
    problems += [f"{r}: is missing" for r in IDS if r not in seen]
    problems += [f"{r}: is no requirement" for r in sorted(set(seen)) if r not in IDS]
    problems += [f"{r}: appears {seen.count(r)} times" for r in IDS if seen.count(r) > 1]
    tree.finish(problems, len(seen))


if __name__ == "__main__":
    main()
