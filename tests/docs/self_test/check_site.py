"""check_site.py on made-up sites."""

import pathlib
import tempfile
import unittest

from check_site import Site


class CheckSite(unittest.TestCase):
    def problems_of(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return Site(pathlib.Path(folder)).problems()

    def test_accepts_links_within_and_links_elsewhere(self):
        self.assertEqual([], self.problems_of({
            "index.html": '<a href="a/b.html#c">c</a><a href="https://example.org/">x</a>'
                          '<link rel="stylesheet" href="a.css"><h1 id="top"><a href="#top">t</a>',
            "a/b.html": '<p id="c"><a href="../index.html">up</a>', "a.css": "a{}"}))

    def test_refuses_links_to_nowhere(self):
        self.assertIn("does not exist", self.problems_of({"a.html": '<a href="b.html">b</a>'})[0])
        self.assertIn("no such anchor",
                      self.problems_of({"a.html": '<a href="b.html#c">', "b.html": "<p id='d'>"})[0])
        self.assertIn("does not exist", self.problems_of({"a.html": '<a href="../../etc/passwd">'})[0])

    def test_refuses_what_a_browser_would_load_from_elsewhere(self):
        for page in ('<script src="https://example.org/a.js"></script>',
                     '<link rel="stylesheet" href="//example.org/a.css">',
                     '<img src="http://example.org/a.png">',
                     '<p style="background: url(https://example.org/a.png)">'):
            self.assertIn("from elsewhere", self.problems_of({"a.html": page})[0], page)

    def test_refuses_styles_that_load_from_elsewhere(self):
        for style in ("@font-face { src: url('https://example.org/a.woff') }",
                      '@import "https://example.org/a.css";'):
            self.assertIn("from elsewhere", self.problems_of({"a.html": "", "a.css": style})[0])

    def test_refuses_styles_that_load_what_is_not_there(self):
        self.assertIn("does not exist",
                      self.problems_of({"a.html": "", "a.css": "a { background: url(b.png) }"})[0])
