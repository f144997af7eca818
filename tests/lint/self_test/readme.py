from . import CheckTest

EXAMPLE = {"examples/a.cc": "#include <b>\n\nint main() {\n  return 0;\n}\n"}


class Readme(CheckTest):
    check = "readme"

    def test_accepts_an_example_to_the_letter(self):
        self.assert_passes({**EXAMPLE, "README.md": f"```cpp\n{EXAMPLE['examples/a.cc']}```\n"})

    def test_accepts_a_part_of_an_example_that_is_linked(self):
        self.assert_passes({**EXAMPLE,
                            "README.md": "```cpp\n  return 0;\n```\n[all](examples/a.cc)\n"})

    def test_refuses_another_program(self):
        self.assert_fails({**EXAMPLE, "README.md": "```cpp\nint main(){}\n```\n[a](examples/a.cc)\n"},
                          "is in no example")

    def test_refuses_a_part_that_begins_in_the_middle_of_a_line(self):
        self.assert_fails({**EXAMPLE, "README.md": "```cpp\nreturn 0;\n```\n[a](examples/a.cc)\n"},
                          "is in no example")

    def test_refuses_an_example_that_is_neither_listed_nor_linked(self):
        self.assert_fails({**EXAMPLE, "README.md": "```cpp\n  return 0;\n```\n"}, "neither lists")

    def test_refuses_a_readme_without_an_example(self):
        self.assert_fails({**EXAMPLE, "README.md": "[a](examples/a.cc)\n"}, "shows no example")
