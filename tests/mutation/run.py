"""Makes recorded mistakes in a copy of the tree, one at a time, and sees that the test that shows the
requirement notices each: it passes without the mistake and fails with it. A test that stays green
shows nothing. Prints a line for each; the exit status is 0 when all are noticed."""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import mutation

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD_SECONDS = 1800
TEST_SECONDS = 180
# A mistake often leaves a variable unused: what the compiler thinks of that is not asked.
CONFIGURE = ["cmake", "--preset", "release", "-DWEFT_TESTS=ON", "-DCMAKE_CXX_FLAGS=-w"]
# What goes wrong now and then, with the mistake made, has to be tried more than once.
ATTEMPTS = 3


def files_of(root):
    listing = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False) if (root / ".git").exists() else None
    if listing is not None and listing.returncode == 0:
        return {n for n in listing.stdout.split("\0") if n and (root / n).is_file()}
    found = set()
    for folder, subfolders, leaves in os.walk(root):
        subfolders[:] = [s for s in subfolders if not s.startswith((".", "build"))]
        found |= {str((pathlib.Path(folder) / leaf).relative_to(root)) for leaf in leaves}
    return found


def copy_tree(root, to):
    """Only what differs is written, so that little is built again."""
    wanted = files_of(root)
    for name in wanted:
        target = to / name
        if target.is_file() and target.read_bytes() == (root / name).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target)
        target.touch()
    for name in files_of(to) - wanted:
        (to / name).unlink()


class Workshop:
    """The copy and its build folder."""

    def __init__(self, root, work, jobs):
        self.tree, self.jobs = work / "tree", jobs
        self.tree.mkdir(parents=True, exist_ok=True)
        copy_tree(root, self.tree)
        self.build_folder = self.tree / "build/release"

    def configure(self, recorded):
        """Files that mistakes are made in are compiled alone, the others several as one."""
        apart = sorted({m.file.removeprefix("src/") for m in recorded if m.file.endswith(".cc")})
        run = self.call([*CONFIGURE, f"-DWEFT_APART={';'.join(apart)}"], BUILD_SECONDS)
        if run.returncode:
            sys.exit(f"configuring failed:\n{run.stdout}")

    def call(self, command, seconds, cwd=None):
        """Ends, with all that it started, after the time; then the status is 124."""
        process = subprocess.Popen(command, cwd=cwd or self.tree, text=True, errors="replace",
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=max(seconds, 1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            return subprocess.CompletedProcess(command, 124, output)
        except BaseException:
            os.killpg(process.pid, 9)
            raise
        return subprocess.CompletedProcess(command, process.returncode, output)

    def build(self, programs, seconds=BUILD_SECONDS):
        command = ["ninja", "-C", str(self.build_folder), "-j", str(self.jobs), *programs]
        return self.call(command, seconds)

    def test(self, program, gtest_filter):
        """Gives 'green', 'red', 'skipped' or 'missing', and what was said."""
        run = self.call([str(self.build_folder / "bin" / program),
                         f"--gtest_filter={gtest_filter}", "--gtest_fail_fast"], TEST_SECONDS,
                        self.build_folder)
        passed = re.search(r"\[  PASSED  \] (\d+) test", run.stdout)
        if run.returncode:
            return "red", run.stdout
        if "[  SKIPPED ]" in run.stdout:
            return "skipped", run.stdout
        return ("green" if passed and int(passed.group(1)) else "missing"), run.stdout


def judge(shop, each, seconds):
    """One mistake: its verdict, and what to show if that is bad."""
    path = shop.tree / each.file
    sound = path.read_text()
    path.write_text(each.apply(sound))
    try:
        built = shop.build([each.program], seconds)
        if built.returncode:
            return "DOES NOT BUILD", built.stdout[-3000:]
        for _ in range(ATTEMPTS):
            colour, output = shop.test(each.program, each.gtest_filter())
            if colour == "red":
                return "noticed", ""
        return "MISSED", output[-2000:]
    finally:
        path.write_text(sound)


def check_sound(shop, program, filters, seconds):
    """The tests as they are: what each one gives, by its filter."""
    built = shop.build([program], seconds)
    if built.returncode:
        print(f"{program} does not build, with no mistake made:\n{built.stdout[-5000:]}")
        return {each: "red" for each in filters}
    return {each: shop.test(program, each)[0] for each in sorted(filters)}


def judge_program(shop, program, chosen, left, tell):
    """All mistakes that tests of one program have to notice."""
    if left() <= 0:
        return [tell(each, "NO TIME LEFT") for each in chosen]
    sound = check_sound(shop, program, {each.gtest_filter() for each in chosen}, left())
    unfit = {"red": "FAILS WITHOUT THE MISTAKE", "missing": "NO SUCH TEST", "skipped": "skipped"}
    verdicts = []
    for each in chosen:
        colour = sound[each.gtest_filter()]
        if colour != "green":
            verdicts.append(tell(each, unfit[colour]))
        elif left() <= 0:
            verdicts.append(tell(each, "NO TIME LEFT"))
        else:
            verdicts.append(tell(each, *judge(shop, each, left())))
    return verdicts


def show(begun, each, verdict, text=""):
    print(f"{time.monotonic() - begun:6.0f} s  {verdict:14}  {each.stem:12}  {each.mistake}",
          flush=True)
    if text:
        print(text, flush=True)
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--work", type=pathlib.Path, help="default: build/mutation of the root")
    parser.add_argument("--only", action="append", default=[], metavar="ID",
                        help="an id, or the name of a file; may be given several times")
    parser.add_argument("--seconds", type=float, default=3600, help="for all of it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    root = options.root.resolve()
    recorded = mutation.read_all(root / "tests/mutation")
    for name in options.only:
        if not any(name in (m.id, m.stem) for m in recorded):
            parser.error(f"--only: '{name}' is none of {', '.join(sorted(m.stem for m in recorded))}")
    chosen = [m for m in recorded if not options.only or {m.id, m.stem} & set(options.only)]
    begun = time.monotonic()
    shop = Workshop(root, (options.work or root / "build/mutation").resolve(), options.jobs)
    shop.configure(recorded)
    programs = list(dict.fromkeys(each.program for each in chosen))
    print(f"{len(chosen)} mistakes, of {len(programs)} programs; each is first built as it is",
          flush=True)
    verdicts = []
    for program in programs:
        verdicts += judge_program(shop, program, [m for m in chosen if m.program == program],
                                  lambda: options.seconds - (time.monotonic() - begun),
                                  lambda *args: show(begun, *args))
    good = verdicts.count("noticed")
    skipped = verdicts.count("skipped")
    print(f"{good} of {len(chosen)} mistakes noticed, {skipped} skipped")
    sys.exit(0 if good + skipped == len(chosen) and good else 1)


def end(*_):
    sys.exit("ended from outside")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)  # and with it all that was started
    main()
