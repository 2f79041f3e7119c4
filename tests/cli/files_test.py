"""Models, texts and outputs that are not what they should be: one sentence, never a crash, never a wait."""

import gzip
import os
import unittest

from program import Case
from tiny_model import tiny_model, words

ARM = ["--arm", "k=q4_0 v=f32", "--context", "16", "--score", "8"]


class Models(Case):
    def refuse_model(self, model, says):
        for verb in (["eval", "-f", self.text, *ARM], ["tokenize", "-f", self.text], ["bench", "prefill"]):
            self.refuse(*verb, "-m", model, says=says)

    def test_missing(self):
        self.refuse_model("nowhere.gguf", ["nowhere.gguf", "smollm2-135m"])

    def test_a_known_name_that_is_not_fetched(self):
        self.refuse_model("smollm2-135m", ["tools/fetch_model", str(self.folder / "cache")])

    def test_a_folder(self):
        self.refuse_model(str(self.folder), "directory")

    def test_empty(self):
        self.refuse_model(self.put("empty.gguf", b""), "empty")

    def test_not_gguf(self):
        self.refuse_model(self.text, "GGUF")

    def test_truncated(self):
        whole = tiny_model()
        for size in (3, 10, 24, 1000, 20000, len(whole) - 1):
            self.refuse_model(self.put("cut.gguf", whole[:size]), "cut.gguf")

    def test_a_pipe_without_a_writer(self):
        path = str(self.folder / "pipe.gguf")
        os.mkfifo(path)
        self.refuse_model(path, "regular file")

    def test_a_device(self):
        self.refuse_model("/dev/zero", "regular file")

    def test_another_architecture(self):
        self.refuse_model(self.put("other.gguf", tiny_model().replace(b"llama", b"lhama")), ["lhama", "llama"])

    def test_a_path_with_strange_characters(self):
        path = self.put("m\u00f6del 'x'.gguf", tiny_model())
        self.assertEqual(len(self.eval(*ARM, model=path)), 1)


class Texts(Case):
    def refuse_text(self, text, says):
        for verb in (["eval", *ARM], ["tokenize"]):
            self.refuse(*verb, "-m", self.model, "-f", text, says=says)

    def test_missing(self):
        self.refuse_text("nowhere.txt", ["nowhere.txt", "jargon"])

    def test_a_known_name_that_is_not_here(self):
        self.refuse_text("wikitext-2-test", "KVANT_TEXTS")

    def test_a_folder(self):
        self.refuse_text(str(self.folder), "directory")

    def test_empty(self):
        self.refuse_text(self.put("empty.txt", b""), "empty")
        self.refuse_text(self.put("empty.txt.gz", gzip.compress(b"")), "empty")

    def test_not_text(self):
        for data in (b"a\0b", b"\xff\xfe\x00a", b"caf\xe9", os.urandom(64) + b"\0", b"\xed\xa0\x80", b"abc\xe2\x82",
                     b"\xe0\x80\x80", b"\xf4\x90\x80\x80"):
            self.refuse_text(self.put("binary.txt", data), ["binary.txt", "UTF-8"])

    def test_gzip(self):
        packed = self.put("text.txt.gz", gzip.compress((self.folder / "text.txt").read_bytes()))
        self.assertEqual(self.eval(*ARM, text=packed)[0]["cache_hash"], self.eval(*ARM)[0]["cache_hash"])

    def test_damaged_gzip(self):
        whole = gzip.compress(words(2000).encode())
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0x55
        for data in (whole[:len(whole) // 2], whole[:-4], bytes(flipped)):
            self.refuse_text(self.put("damaged.txt.gz", data), ["damaged.txt.gz", "gzip"])

    def test_a_pipe_without_a_writer(self):
        path = str(self.folder / "pipe.txt")
        os.mkfifo(path)
        self.refuse_text(path, "regular file")

    def test_a_device(self):
        self.refuse_text("/dev/zero", "regular file")

    def test_a_known_text_that_is_a_pipe(self):
        os.makedirs(self.folder / "texts", exist_ok=True)
        os.mkfifo(self.folder / "texts/wiki.test.raw")
        environment = {"KVANT_TEXTS": str(self.folder / "texts")}
        self.refuse("tokenize", "-m", self.model, "-f", "wikitext-2-test", environment=environment,
                    says="regular file")
        self.assertIn("regular file", self.succeed("doctor", environment=environment))


class Output(Case):
    def commands(self):
        eval_verb = ["eval", "-m", self.model, "-f", self.text, *ARM]
        return {"eval": eval_verb, "eval --json": [*eval_verb, "--json"],
                "tokenize": ["tokenize", "-m", self.model, "-f", self.text], "codecs": ["codecs"],
                "doctor": ["doctor"], "help": ["--help"], "version": ["--version"], "eval help": ["eval", "--help"],
                "bench": ["bench", "prefill", "-m", self.model, "--depth", "0", "--chunk", "8", "--repetitions", "1"]}

    def test_a_full_disk(self):
        for name, arguments in self.commands().items():
            with self.subTest(name), open("/dev/full", "wb") as full:
                code, _, err = self.kvant(*arguments, stdout=full)
                self.assertEqual(code, 1, err)
                self.assertIn("kvant: the output could not be written", err)

    def test_a_closed_output(self):
        for name, arguments in self.commands().items():
            with self.subTest(name):
                code, _, err = self.kvant(*arguments, preexec_fn=lambda: os.close(1))
                self.assertEqual(code, 1, err)
                self.assertIn("kvant: the output could not be written", err)

    def test_a_closed_pipe(self):
        # As in `kvant ... | head -1`: ended by SIGPIPE, as any filter is, or with an error; nothing is said twice.
        for name, arguments in self.commands().items():
            with self.subTest(name):
                read_end, write_end = os.pipe()
                os.close(read_end)
                with os.fdopen(write_end, "wb") as pipe:
                    code, _, err = self.kvant(*arguments, stdout=pipe, restore_signals=True)
                self.assertIn(code, (-13, 1), err)

    def test_a_closed_pipe_whose_signal_is_ignored(self):
        # Some shells and Python start programs like this: writing then fails in place of ending the program.
        for name, arguments in self.commands().items():
            with self.subTest(name):
                read_end, write_end = os.pipe()
                os.close(read_end)
                with os.fdopen(write_end, "wb") as pipe:
                    code, _, err = self.kvant(*arguments, stdout=pipe, restore_signals=False)
                self.assertEqual(code, 1, err)
                self.assertIn("kvant: the output could not be written", err)


if __name__ == "__main__":
    unittest.main()
