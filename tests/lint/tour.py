"""docs/tour.md leads through code that exists: every file that it names is there, every function
stands in the file beside which it is named, each hop is in the layer that its row names, and the
hops of one table go down through the layers, or up, and never back."""

import re

import tree

PATH = re.compile(r"`((?:src|include|tests|examples|docs)/[\w/.-]+)`")
ROW = re.compile(r"^\| (\w+) \| `([\w/.-]+)`: ((?:`[\w:]+`(?:, )?)+) \|.*\|$")
HEAD = re.compile(r"^\| (down|up) \| where \| what happens \|$")


def layers_of(root):
    """From the lowest to the highest."""
    text = (root / "CMakeLists.txt").read_text()
    return re.search(r"set\(WEFT_LAYERS\s+([^)]*)\)", text).group(1).split()


def names_function(text, header, name):
    """Whether the file's text has the function, and its class if it is named."""
    *classes, function = name.split("::")
    has = re.search(r"\b%s(?:<[^<>]*>)?\(" % re.escape(function), text) is not None
    return has and all(re.search(r"\b%s\b" % c, text + header) for c in classes)


def problems_of_row(root, row, layers):
    layer, path, names = row[1], row[2], re.findall(r"`([\w:]+)`", row[3])
    if not (root / path).is_file():
        yield f"{path} does not exist"
        return
    if layer not in layers or not path.startswith(f"src/{layer}/"):
        yield f"{path} is not in the layer {layer}"
    text = (root / path).read_text()
    beside = (root / path).with_suffix(".h")
    header = beside.read_text() if beside.is_file() else ""
    for name in names:
        if not names_function(text, header, name):
            yield f"{path} has no {name}"


def problems_of(root, text, layers):
    """The problems, and how many hops there are."""
    problems, direction, last, hops = [], None, None, 0
    for number, line in enumerate(text.splitlines(), 1):
        found = [f"{path} does not exist" for path in PATH.findall(line)
                 if not (root / path).exists()]
        if head := HEAD.match(line):
            direction, last = head[1], None
        elif not line.startswith("|"):
            direction = None
        elif direction and not set(line) <= set("|- "):
            hops += 1
            if row := ROW.match(line):
                found += problems_of_row(root, row, layers)
                place = layers.index(row[1]) if row[1] in layers else 0
                if last is not None and (place > last if direction == "down" else place < last):
                    found.append(f"{row[1]} is not {direction} from the hop before")
                last = place
            else:
                found.append("the row is not of the form | layer | `file`: `f`, `g` | text |")
        problems += [f"docs/tour.md, line {number}: {each}" for each in dict.fromkeys(found)]
    return problems, hops


def main():
    root = tree.parse_root(__doc__)
    tree.finish(*problems_of(root, (root / "docs/tour.md").read_text(), layers_of(root)))


main()
