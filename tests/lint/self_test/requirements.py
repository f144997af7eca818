import re

from . import LINT, CheckTest

HEAD = "| id | what | state | implemented in | shown by |\n|---|---|---|---|---|\n"
SHOWN = "`tests/a_test.cc: Key.dies`"


def ids():
    """The ids that the check knows, read from its text: the check itself runs when imported."""
    text = (LINT / "requirements.py").read_text()
    scope = {}
    exec(re.search(r"^IDS = .*?\)\n(?=\w)", text, re.MULTILINE | re.DOTALL).group(0), scope)
    return scope["IDS"]


class Requirements(CheckTest):
    check = "requirements"

    def tree(self, changed=None, test="TEST(Key, dies) {\n  // B4.1\n  EXPECT_TRUE(f());\n}\n"):
        rows = {r: f"| {r} | what | open |  |  |\n" for r in ids()}
        rows.update(changed or {})
        return {"docs/requirements.md": HEAD + "".join(rows.values()),
                "src/a.cc": "", "tests/a_test.cc": test}

    def done(self, implemented="`src/a.cc`", shown=SHOWN):
        return {"B4.1": f"| B4.1 | what | done | {implemented} | {shown} |\n"}

    def test_accepts_open_and_shown_ids(self):
        self.assert_passes(self.tree())
        self.assert_passes(self.tree(self.done()))
        self.assert_passes(self.tree(self.done(), "// B4.1\nTEST_P(Key, dies) { f(); }\n"))

    def test_refuses_missing_id(self):
        self.assert_fails(self.tree({"A7": ""}), "A7: is missing")

    def test_refuses_unknown_and_repeated_id(self):
        self.assert_fails(self.tree({"x": "| B9.9 | what | open |  |  |\n"}), "B9.9: is no")
        self.assert_fails(self.tree({"x": "| A1 | what | open |  |  |\n"}), "A1: appears 2")

    def test_refuses_unknown_state(self):
        self.assert_fails(self.tree({"A1": "| A1 | what | soon |  |  |\n"}), "state is 'soon'")

    def test_refuses_broken_row(self):
        self.assert_fails(self.tree({"A1": "| A1 | what | open |\n"}), "3 cells")

    def test_refuses_done_without_file_or_test(self):
        self.assert_fails(self.tree(self.done(implemented="")), "names no file")
        self.assert_fails(self.tree(self.done(shown="")), "names no test")
        self.assert_fails(self.tree(self.done(implemented="`src/b.cc`")), "src/b.cc does not exist")

    def test_refuses_test_that_does_not_exist(self):
        self.assert_fails(self.tree(self.done(shown="`tests/b_test.cc: Key.dies`")), "not exist")
        self.assert_fails(self.tree(self.done(shown="`tests/a_test.cc: Key.lives`")), "has no test")
        self.assert_fails(self.tree(self.done(shown="`Key.dies`")), "not of the form")

    def test_refuses_test_that_does_not_mention_the_id(self):
        self.assert_fails(self.tree(self.done(), "TEST(Key, dies) {\n  // B4.12\n}\n"), "mention")
        self.assert_fails(self.tree(self.done(), "TEST(Key, dies) {\n}\n// B4.1\n"), "mention")

    def test_refuses_disabled_test(self):
        self.assert_fails(self.tree(self.done(shown="`tests/a_test.cc: Key.DISABLED_dies`"),
                                    "TEST(Key, DISABLED_dies) {\n  // B4.1\n}\n"), "disabled")
