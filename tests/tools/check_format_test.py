"""tools/check_format in a repository of its own: finds a wrong file, new ones included, and repairs it."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from scripts import ROOT, TOOLS, write


class CheckFormat(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        (self.root / "tools").mkdir()
        shutil.copy(TOOLS / "check_format", self.root / "tools")
        shutil.copy(ROOT / ".clang-format", self.root)
        write(self.root / ".gitignore", "/build/\n")
        write(self.root / "right.cc", "int right = 1;\n")
        write(self.root / "build/ignored.cc", "int   ignored=1 ;\n")

    def check(self, *arguments):
        return subprocess.run([self.root / "tools/check_format", *arguments], capture_output=True, text=True)

    def test_right_files_pass(self):
        result = self.check()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 files", result.stderr)

    def test_a_new_wrong_file_is_found_and_repaired(self):
        wrong = write(self.root / "a folder/wrong.h", "int   wrong=1 ;\n")
        result = self.check()
        self.assertEqual(result.returncode, 1)
        self.assertIn("a folder/wrong.h:1", result.stderr)
        self.assertNotIn("right.cc", result.stderr)
        self.assertEqual(self.check("--fix").returncode, 0)
        self.assertEqual(wrong.read_text(), "int wrong = 1;\n")
        self.assertEqual(self.check().returncode, 0)

    def test_no_file_is_no_pass(self):
        (self.root / "right.cc").unlink()
        self.assertEqual(self.check().returncode, 2)


if __name__ == "__main__":
    unittest.main()
