from . import CheckTest

HEAD = "| id | what | state | implemented in | shown by |\n|---|---|---|---|---|\n"
RECORDED = """id: B4.1
mistake: keys live for ever
file: src/a.cc
program: unit_a
test: tests/a_test.cc: Key.dies
=== old
  return false;
=== new
  return true;
"""


class Mutations(CheckTest):
    check = "mutations"

    def tree(self, recorded=RECORDED, name="B4.1", source="f() {\n  return false;\n}\n"):
        return {"docs/requirements.md": HEAD +
                "| B4.1 | what | done | `src/a.cc` | `tests/a_test.cc: Key.dies` |\n"
                "| B4.2 | what | open |  |  |\n",
                "src/a.cc": source, f"tests/mutation/{name}.mutation": recorded}

    def test_accepts_one_for_each_done_id(self):
        self.assert_passes(self.tree())
        self.assert_passes({**self.tree(), "tests/mutation/B4.1-again.mutation": RECORDED})

    def test_accepts_a_mistake_of_several_changes(self):
        both = RECORDED + "=== old\n  return 2;\n=== new\n  return 3;\n"
        self.assert_passes(self.tree(both, source="  return false;\n  return 2;\n"))
        self.assert_fails(self.tree(both), "occurs 0 times")
        self.assert_fails(self.tree(both.replace("=== new", "=== old", 1)), "in its place")

    def test_refuses_done_id_without_one(self):
        files = self.tree()
        del files["tests/mutation/B4.1.mutation"]
        self.assert_fails(files, "B4.1: is done, and no mistake")

    def test_refuses_text_that_does_not_fit_the_file_any_more(self):
        self.assert_fails(self.tree(source="f() { return 7; }\n"), "occurs 0 times")
        self.assert_fails(self.tree(source="  return false;\n  return false;\n"), "occurs 2 times")
        files = self.tree()
        del files["src/a.cc"]
        self.assert_fails(files, "src/a.cc does not exist")

    def test_refuses_test_that_does_not_show_the_id(self):
        self.assert_fails(self.tree(RECORDED.replace("Key.dies", "Key.lives")), "does not name")
        self.assert_fails(self.tree(RECORDED.replace("B4.1", "B4.2"), "B4.2"), "B4.2 is not done")

    def test_refuses_what_is_not_of_the_format(self):
        self.assert_fails(self.tree(name="keys"), "a name is an id")
        self.assert_fails(self.tree(RECORDED.replace("program: unit_a\n", "")), "lacks program")
        self.assert_fails(self.tree(RECORDED.replace("=== new\n", "")), "lacks === new")
        self.assert_fails(self.tree(RECORDED.replace("true", "false")), "changes nothing")
        self.assert_fails(self.tree(RECORDED.replace("B4.1", "B4.2")), "its name says otherwise")
        self.assert_fails(self.tree(RECORDED.replace("mistake:", "error:")), "not understood")
