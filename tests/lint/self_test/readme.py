from . import CheckTest

EXAMPLE = {"examples/first_write.cc": "int main() {}\n"}


class Readme(CheckTest):
    check = "readme"

    def test_accepts_the_example_to_the_letter(self):
        self.assert_passes({**EXAMPLE, "README.md": "```cpp\nint main() {}\n```\n"})

    def test_refuses_another_program(self):
        self.assert_fails({**EXAMPLE, "README.md": "```cpp\nint main(){}\n```\n"}, "differs")
