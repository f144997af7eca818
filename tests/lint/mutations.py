"""The mistakes recorded in tests/mutation can still be made: each names a file in which its old text
stands exactly once, and a test that docs/requirements.md names for its id. Each id that is done has
one. Whether the tests notice them is seen by `make soak`, which takes longer."""

import pathlib
import sys

import requirements
import tree

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "mutation"))
import mutation  # noqa: E402


def problems_of(root, each, shown):
    path = root / each.file
    if not path.is_file():
        yield f"{each.stem}: {each.file} does not exist"
        return
    try:
        each.apply(path.read_text())
    except mutation.Malformed as error:
        yield str(error)
    if each.id not in shown:
        yield f"{each.stem}: {each.id} is not done"
    elif each.test not in shown[each.id]:
        yield f"{each.stem}: docs/requirements.md does not name {each.test} for {each.id}"


def main():
    root = tree.parse_root(__doc__)
    rows = requirements.read_rows((root / "docs/requirements.md").read_text())
    shown = {row[0]: requirements.TICKED.findall(row[4]) for row in rows
             if len(row) == len(requirements.COLUMNS) and row[2] == "done"}
    recorded, problems = [], []
    for path in sorted((root / "tests/mutation").glob("*.mutation")):
        try:
            recorded.append(mutation.parse(path.stem, path.read_text()))
        except mutation.Malformed as error:
            problems.append(str(error))
    for each in recorded:
        problems += problems_of(root, each, shown)
    ids = {each.id for each in recorded}
    problems += [f"{r}: is done, and no mistake is recorded that its test notices"
                 for r in shown if r not in ids]
    tree.finish(problems, len(recorded) or len(shown))


main()
