"""The reference has all that there is: each option that the help of a command names stands in
docs/reference/commands.md, in the part of that command, and nothing else does; each variable of the
environment that the sources read stands in docs/reference/settings.md.

    check_reference.py --build build/release"""

import argparse
import pathlib
import re
import subprocess
import sys

COMMANDS = {"run": ["run"], "env": ["env"], "sim": ["sim"], "demo": ["demo"],
            "fabric sim": ["fabric", "sim"], "fabric check": ["fabric", "check"],
            "fabric make": ["fabric", "make"], "fabric draw": ["fabric", "draw"],
            "bench channel": ["bench", "channel"]}
OPTION = re.compile(r"^ +(?:-\w, ?)?(--[a-z][a-z-]*)", re.MULTILINE)
# As the sources name them: getenv("WEFT_X"), environment_variable("WEFT_X"), {"WEFT_X", ...
VARIABLE = re.compile(r'"(WEFT_[A-Z_]+)"')


def options_of_help(weft: pathlib.Path, command: list[str]) -> set[str]:
    run = subprocess.run([weft, *command, "--help"], capture_output=True, text=True, check=True)
    return set(OPTION.findall(run.stdout)) - {"--help"}


def options_of_page(text: str, command: str) -> set[str]:
    part = re.search(rf"^## weft {command}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if part is None:
        return set()
    return set(re.findall(r"`(--[a-z][a-z-]*)", part[1]))


def problems_of_options(name: str, there: set[str], told: set[str]) -> list[str]:
    return ([f"weft {name}: {option} is not in the reference" for option in sorted(there - told)] +
            [f"weft {name}: has no {option}" for option in sorted(told - there)])


def variables_of(root: pathlib.Path) -> set[str]:
    return {name for path in sorted((root / "src").rglob("*.cc"))
            for name in VARIABLE.findall(path.read_text())}


def problems_of_variables(there: set[str], text: str) -> list[str]:
    told = set(re.findall(r"`(WEFT_[A-Z_]+)", text))
    return ([f"{name} is not in the reference" for name in sorted(there - told)] +
            [f"no source reads {name}" for name in sorted(told - there)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    options = parser.parse_args()
    pages = options.root / "docs/reference"
    commands, checked = (pages / "commands.md").read_text(), 0
    problems: list[str] = []
    for name, command in COMMANDS.items():
        there = options_of_help(options.build / "bin/weft", command)
        told = options_of_page(commands, name)
        if name == "env":  # and those of run, which the page does not repeat
            there -= options_of_help(options.build / "bin/weft", ["run"])
        problems += problems_of_options(name, there, told)
        checked += len(there)
    variables = variables_of(options.root)
    problems += problems_of_variables(variables, (pages / "settings.md").read_text())
    checked += len(variables)
    print("\n".join(problems + [f"{checked} checked, {len(problems)} problems"]))
    return 1 if problems or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
