"""What a page of the documentation asks its reader to type, read from its Markdown.

A block of ```console has lines `$ command` for the first terminal and `name$ command` for another
one, each followed by the output that the page shows. A block of ```sh is a script for the first
terminal. HTML comments right above a block say what the reader need not see:

    <!-- file: first.cc -->        the block (of any language) is this file, saved beside the page
    <!-- not run: the reason -->   nobody runs it
    <!-- status: 1 -->             its last command ends with this status
    <!-- listens: 18515 -->        wait until its last command listens to this TCP port
    <!-- stays -->                 its last command does not end by itself
"""

import dataclasses
import re

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*) *$")
COMMENT = re.compile(r"^ *<!-- *(?P<key>file|not run|status|listens|stays)(?:: *(?P<value>.*?))? *-->$")
PROMPT = re.compile(r"^(?P<terminal>[a-z]*)\$ (?P<command>.*)$")
RUN = ("console", "sh")


class PageError(Exception):
    """The page does not follow the rules above."""


@dataclasses.dataclass
class Block:
    line: int
    language: str
    text: list[str]
    notes: dict[str, str]


@dataclasses.dataclass
class Step:
    """One command, or one file to save."""
    line: int
    command: str = ""
    terminal: str = ""
    shown: list[str] = dataclasses.field(default_factory=list)
    status: int = 0
    listens: int | None = None
    stays: bool = False
    file: str | None = None


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks, with the notes that stand right above each."""
    blocks: list[Block] = []
    notes: dict[str, str] = {}
    inside: Block | None = None
    indent = 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if inside is not None:
            if fence and not fence["language"] and len(fence["indent"]) == indent:
                blocks.append(inside)
                inside = None
            else:
                inside.text.append(line[indent:] if not line[:indent].strip() else line)
        elif fence:
            inside, notes = Block(number, fence["language"], [], notes), {}
            indent = len(fence["indent"])
        elif comment := COMMENT.match(line):
            notes[comment["key"]] = comment["value"] or ""
        elif line.strip() and notes:
            raise PageError(f"line {number}: a note must stand right above its block")
    if inside is not None:
        raise PageError(f"line {inside.line}: the block does not end")
    return blocks


def steps_of_console(block: Block) -> list[Step]:
    steps: list[Step] = []
    continued = False
    for number, line in enumerate(block.text, block.line + 1):
        prompt = PROMPT.match(line)
        if continued:
            steps[-1].command += "\n" + line
            continued = line.endswith("\\")
        elif prompt:
            steps.append(Step(number, prompt["command"], prompt["terminal"]))
            continued = line.endswith("\\")
        elif steps:
            steps[-1].shown.append(line)
        else:
            raise PageError(f"line {number}: output without a command")
    if not steps:
        raise PageError(f"line {block.line}: no command in it")
    return steps


def steps_of_block(block: Block) -> list[Step]:
    if "file" in block.notes:
        return [Step(block.line, "\n".join(block.text) + "\n", file=block.notes["file"])]
    if block.language == "sh":
        steps = [Step(block.line, "set -e\n" + "\n".join(block.text) + "\nset +e")]
    else:
        steps = steps_of_console(block)
    last = steps[-1]
    last.status = int(block.notes.get("status", 0))
    last.listens = int(block.notes["listens"]) if "listens" in block.notes else None
    last.stays = "stays" in block.notes
    return steps


def steps_of(text: str) -> tuple[list[Step], list[str]]:
    """The steps of a page in order, and why each block that nobody runs is not run."""
    steps: list[Step] = []
    not_run: list[str] = []
    for block in blocks_of(text):
        if block.language not in RUN and "file" not in block.notes:
            if block.notes:
                raise PageError(f"line {block.line}: notes above a block that is not run anyway")
        elif "not run" not in block.notes:
            steps += steps_of_block(block)
        elif block.notes["not run"]:
            not_run.append(f"line {block.line}: {block.notes['not run']}")
        else:
            raise PageError(f"line {block.line}: does not say why it is not run")
    return steps, not_run


def missing_line(shown: list[str], output: str) -> str | None:
    """The first line that a page shows and that does not come, in this order, in the output; `...`
    stands for anything. Spaces count as one, and not beside `...`."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    at = 0
    for line in shown:
        wanted = " ".join(line.split())
        if wanted in ("", "..."):
            continue
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in wanted.split("...")) + r"\Z")
        found = next((i for i in range(at, len(lines)) if pattern.match(lines[i])), None)
        if found is None:
            return line
        at = found + 1
    return None
