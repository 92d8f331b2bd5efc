#!/usr/bin/env python3
"""The article's table is a labelled fixture: its sums hold, and none of it reaches a default of the product.

  article_table_test.py           the test (ctest)
  article_table_test.py --show    the table, with its label
"""
import pathlib
import re
import sys
import tempfile
import tomllib
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FIXTURE = HERE / "article_table.toml"
# What decides anything in the product: sources, profiles, rules, and what is generated from them.
PRODUCT = ("runtime", "tools", "interpose", "kernels", "scripts", "cmake")
# Data from which defaults are made; here a figure alone would give it away.
DATA = ("runtime/profiles/data", "runtime/profiles/generated", "runtime/placement/default_rules.toml", "runtime/placement/generated")
TEXT = {".h", ".cpp", ".cu", ".py", ".toml", ".inc", ".def", ".txt", ".cmake", ".json", ".csv", ".sql", ".md", ""}


def files(root, folders):
    for folder in folders:
        top = root / folder
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and path.suffix in TEXT:
                yield path


def leaks(root, table):
    """Places where the fixture, its tasks with figures, or its figures as data appear in the product."""
    found = []
    figures = {f"{value:g}" for row in table["row"] for value in (row["b200"], row["rubin"], row["ratio_pct"])}
    models = {row["task"].split()[0] for row in table["row"]}
    for path in files(root, PRODUCT):
        text = path.read_text(errors="replace")
        if "article_table" in text:
            found.append(f"{path}: names the fixture")
        for number, line in enumerate(text.splitlines(), 1):
            numbers = set(re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", line))
            if any(re.search(rf"\b{model}\b", line) for model in models) and numbers & figures:
                found.append(f"{path}:{number}: a task of the fixture with its figure")
            if any(path == root / d or (root / d) in path.parents for d in DATA):
                code = line.split("#")[0].split("//")[0]
                # A profile's value has a unit or mark beside it: only a bare pair of a row is conclusive.
                for row in table["row"]:
                    if {f"{row['b200']:g}", f"{row['rubin']:g}"} <= set(re.findall(r"(?<![\w.])\d+\.\d+", code)):
                        found.append(f"{path}:{number}: both figures of {row['task']}")
                if {f"{row['ratio_pct']:g}" for row in table["row"]} & numbers:
                    found.append(f"{path}:{number}: a ratio of the fixture")
    return found


class ArticleTable(unittest.TestCase):
    def setUp(self):
        self.table = tomllib.loads(FIXTURE.read_text())

    def test_labelled(self):
        self.assertEqual(self.table["label"], "unverified")
        self.assertTrue(FIXTURE.read_text().startswith("# FIXTURE, UNVERIFIED."))

    def test_sums(self):
        self.assertEqual(len(self.table["row"]), 3)
        for row in self.table["row"]:
            self.assertAlmostEqual(100 * row["b200"] / row["rubin"], row["ratio_pct"], delta=0.06, msg=row["task"])

    def test_not_in_any_default(self):
        self.assertEqual(leaks(ROOT, self.table), [])
        self.assertGreater(len(list(files(ROOT, PRODUCT))), 300, "the search looked at the product")

    def test_the_search_finds_a_leak(self):
        for name, text in (("runtime/cost/seed.cpp", "Sample{\"SDXL\", 38.7}"), ("tools/x.py", "open('article_table.toml')"),
                           ("runtime/profiles/data/b200.toml", "sdxl = [38.7, 52.1]"),
                           ("runtime/placement/default_rules.toml", "scale = 74.3")):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True)
                path.write_text(text)
                self.assertEqual(len(leaks(pathlib.Path(folder), self.table)), 1, text)


def show():
    table = tomllib.loads(FIXTURE.read_text())
    print(f"{table['label'].upper()}: {table['source']}; {table['unit']}")
    for row in table["row"]:
        print(f"{row['task']:<22} B200 {row['b200']:>6}  Rubin {row['rubin']:>6}  {row['ratio_pct']} %")


if __name__ == "__main__":
    if "--show" in sys.argv[1:]:
        show()
    else:
        unittest.main()
