"""A GitHub runner in the small: the steps of a composite action, with the files and variables that the
runner gives them, on a network that has only loopback, as a user without privileges."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess

import yaml

# Loopback alone, and inside it nobody's rights; root gives its own up as well.
ISOLATED = ["unshare", "--user", "--map-current-user", "--net", "--keep-caps", "sh", "-c",
            'ip link set lo up && exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all "$@"', "sh"]


@dataclasses.dataclass
class Job:
    """What the steps of one job share."""
    folder: pathlib.Path
    path: list[str] = dataclasses.field(default_factory=list)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    outputs: dict[str, str] = dataclasses.field(default_factory=dict)
    transcript: str = ""

    def shell(self, script: str, **variables: str) -> int:
        """Runs one step; what it writes into the runner's files counts for the next."""
        files = {name: self.folder / name for name in ("GITHUB_PATH", "GITHUB_ENV", "GITHUB_OUTPUT")}
        for file in files.values():
            file.write_text("", encoding="utf-8")
        environment = {"PATH": ":".join([*self.path, "/usr/sbin", "/usr/bin", "/sbin", "/bin"]),
                       "HOME": str(self.folder), "RUNNER_TEMP": str(self.folder),
                       **{name: str(file) for name, file in files.items()}, **self.environment, **variables}
        ended = subprocess.run([*ISOLATED, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
                               env=environment, cwd=self.folder, capture_output=True, text=True,
                               timeout=200, check=False)
        self.transcript += ended.stdout + ended.stderr
        lines = {name: file.read_text(encoding="utf-8").splitlines() for name, file in files.items()}
        self.path = [*lines["GITHUB_PATH"], *self.path]
        self.environment |= dict(line.split("=", 1) for line in lines["GITHUB_ENV"])
        self.outputs |= dict(line.split("=", 1) for line in lines["GITHUB_OUTPUT"])
        return ended.returncode


def run_action(action: pathlib.Path, job: Job, **inputs: str) -> int:
    """Runs the action's steps until one fails; gives the status of the last."""
    description = yaml.safe_load((action / "action.yml").read_text(encoding="utf-8"))
    unknown = set(inputs) - set(description["inputs"])
    if unknown:
        raise ValueError(f"the action has no input {unknown}")
    values = {name: inputs.get(name, settings["default"]) for name, settings in description["inputs"].items()}
    github = {"server_url": "https://192.0.2.1", "action_repository": "owner/weft", "action_ref": "v9"}

    def filled(text: str) -> str:
        text = re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: values[match[1]], text)
        text = re.sub(r"\$\{\{ github\.([a-z_]+) \}\}", lambda match: github[match[1]], text)
        if "${{" in text:
            raise ValueError(f"not understood: {text}")
        return text

    for step in description["runs"]["steps"]:
        if "if" in step:
            name, value = re.fullmatch(r"inputs\.([a-z-]+) == '(.*)'", step["if"]).groups()
            if values[name] != value:
                continue
        variables = {name: filled(value) for name, value in step.get("env", {}).items()}
        status = job.shell(filled(step["run"]), GITHUB_ACTION_PATH=os.fspath(action), **variables)
        if status != 0:
            return status
    return 0
