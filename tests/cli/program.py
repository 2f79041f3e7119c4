"""What the tests of the program share: running it in a clean environment, and what every error must look like."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from tiny_model import tiny_model, words

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KVANT_PROGRAM", str(ROOT / "build/release/bin/kvant"))
SECONDS = 60  # far above what any command here takes: one that hangs fails and does not stop the suite
# Every cell is synced to the disk, and on a busy one a sync can take longer than a whole test.
IN_MEMORY = "/dev/shm"
CRASH_WORDS = ("terminate called", "what():", "CHECK failed", "Sanitizer", "runtime error", "core dumped")


class Case(unittest.TestCase):
    """A folder with model.gguf and text.txt for the tests of one class, and an environment without the user's own."""

    model_options = {}
    text_words = 400

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None)
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.model = cls.put("model.gguf", tiny_model(**cls.model_options))
        cls.text = cls.put("text.txt", words(cls.text_words).encode())
        cls.environment = {key: value for key, value in os.environ.items() if not key.startswith("KVANT_")}
        cls.environment |= {"HOME": str(cls.folder / "home"), "KVANT_CACHE": str(cls.folder / "cache")}

    @classmethod
    def put(cls, name, data):
        path = cls.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return str(path)

    def start(self, *arguments, environment=None, **options):
        full = self.environment | (environment or {})
        full = {key: value for key, value in full.items() if value is not None}
        command = [PROGRAM, *(part if isinstance(part, bytes) else str(part) for part in arguments)]
        return subprocess.Popen(command, env=full, cwd=self.folder, stdin=subprocess.DEVNULL,
                                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options)

    def kvant(self, *arguments, **options):
        """(exit code, stdout, stderr) of the program; fails on anything that looks like a crash."""
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail(f"kvant {' '.join(map(str, arguments))} hangs")
        out, err = ((data or b"").decode(errors="backslashreplace") for data in (out, err))
        for word in CRASH_WORDS:
            self.assertNotIn(word, err)
        return process.returncode, out, err

    def succeed(self, *arguments, **options):
        code, out, err = self.kvant(*arguments, **options)
        self.assertEqual(code, 0, err)
        return out

    def refuse(self, *arguments, code=1, says=(), **options):
        """The program ends with `code`, prints nothing on stdout, and every line of stderr is a message of its own."""
        got, out, err = self.kvant(*arguments, **options)
        self.assertEqual(got, code, err)
        self.assertEqual(out, "")
        self.assert_messages(err)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, err)
        return err

    def assert_messages(self, err):
        self.assertTrue(err.endswith("\n"), err)
        for line in err.splitlines():
            self.assertTrue(line.startswith("kvant: ") and len(line) > 15, line)

    def eval(self, *arguments, model=None, text=None, **options):
        """The objects that `kvant eval --json` prints, in their order of keys."""
        out = self.succeed("eval", "-m", model or self.model, "-f", text or self.text, "--json", *arguments, **options)
        return [json.loads(line) for line in out.splitlines()]
