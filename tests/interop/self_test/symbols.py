"""symbols.py on made-up lists of names."""

import unittest

import symbols


class Symbols(unittest.TestCase):
    """What is exported, and what should be."""

    def setUp(self):
        self.listed = symbols.WITHOUT_OBJECT | symbols.WITHOUT_OUR_OBJECT
        self.public = self.listed | {"ibv_create_qp"}

    def test_all_accounted_for(self):
        self.assertEqual(list(symbols.problems_of({"ibv_create_qp"}, self.public)), [])

    def test_a_function_that_is_new_is_noticed(self):
        problems = list(symbols.problems_of({"ibv_create_qp"}, self.public | {"ibv_new"}))
        self.assertEqual(len(problems), 1)
        self.assertIn("ibv_new is public", problems[0])

    def test_a_stale_list_is_noticed(self):
        some = next(iter(symbols.WITHOUT_OBJECT))
        self.assertIn("is exported",
                      list(symbols.problems_of({"ibv_create_qp", some}, self.public))[0])
        self.assertIn("no release", list(symbols.problems_of({"ibv_create_qp"},
                                                             self.public - {some}))[0])
