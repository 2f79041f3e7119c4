"""The README's commands run, and its results are what its command prints.

Needs KVANT_MODEL_SMOLLM2 and the default text. The default experiment is killed in its middle and continued on the way.
"""

import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ["KVANT_PROGRAM"]
README = (ROOT / "README.md").read_text()
MODEL = os.environ.get("KVANT_MODEL_SMOLLM2")


def commands():
    """Indented lines of the README that call the program, continued lines joined, comments dropped."""
    lines = README.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("    build/release/bin/kvant ")]


def rows_of(text):
    """Table rows as lists of cells, without the last column: seconds differ between machines."""
    return [[cell.strip() for cell in line.strip("|").split("|")][:-1] for line in text.splitlines() if line.startswith("|")]


def verdicts_of(text):
    return [line.rstrip() for line in text.splitlines() if line.startswith("- **")]


@unittest.skipUnless(MODEL, "KVANT_MODEL_SMOLLM2 does not name the model's file")
class Readme(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        # A cache folder with the model under the name that the README uses.
        models = self.folder / "cache" / "models"
        models.mkdir(parents=True)
        (models / "SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(MODEL)
        self.environment = {**os.environ, "KVANT_CACHE": str(self.folder / "cache")}
        (self.folder / "experiments").symlink_to(ROOT / "experiments")

    def call(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=1200)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done.stdout

    def test_every_command_runs(self):
        text = self.folder / "text.txt"
        text.write_text("".join(f"Line {number} of a text that is long enough.\n" for number in range(400)))
        verbs = set()
        for words in commands():
            arguments = [MODEL if word == "MODEL.gguf" else str(text) if word == "TEXT.txt" else word for word in words[1:]]
            verbs.add(arguments[0])
            if arguments[:2] == ["bench", "prefill"]:
                arguments += ["--repetitions", "1", "--depth", "0"]
            if arguments[0] == "run" and "--smoke" not in arguments:
                continue  # the next test
            with self.subTest(words):
                self.assertTrue(self.call(*arguments))
        self.assertEqual(verbs, {"run", "eval", "tokenize", "codecs", "doctor", "bench"})

    def test_results_are_those_of_the_command(self):
        made_by = re.search(r"<!-- results:begin \(made by: (\S+) (.*?)\) -->(.*?)<!-- results:end -->", README, re.DOTALL)
        arguments = shlex.split(made_by.group(2))
        start = time.monotonic()
        victim = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        database = self.folder / "results" / "keys-vs-values" / "results.db"
        while time.monotonic() - start < 600 and (not database.exists() or database.stat().st_size < 200_000):
            self.assertIsNone(victim.poll(), "the run ended before it was killed")
            time.sleep(0.2)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        out = self.call(*arguments)
        self.assertIn("there already", out)  # what the killed run had stored
        self.assertEqual(rows_of(out), rows_of(made_by.group(3)))
        got = [verdict for verdict in verdicts_of(out)]
        self.assertEqual(got, verdicts_of(made_by.group(3)))


if __name__ == "__main__":
    unittest.main()
