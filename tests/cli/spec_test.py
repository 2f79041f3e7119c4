"""Experiment files with mistakes: all of them at once, each with its place."""

import os
import unittest

from experiment import ARMS, RunCase, toml


class Spec(RunCase):
    def refuse_spec(self, text, says, *arguments):
        err = self.refuse("run", self.spec(text), "-o", self.out, *arguments, says=says)
        self.assertFalse(self.out.exists())  # nothing was begun
        return err

    def line_of(self, text, part):
        return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)

    def test_mistakes_of_the_file_come_together_with_their_lines(self):
        text = toml(bars={"one": "mean kl(k9) > mean kl(k8) at 128", "two": "kl(k8) >> 3",
                          "three": "mean kl(k8) < 1 at 99"}, colour='"red"')
        path = self.spec(text)
        err = self.refuse_spec(text, [])
        for part, says in (("colour", "colour"), ("k9", "k9"), (">> 3", "character"), ("at 99", "99")):
            line, = (line for line in err.splitlines() if f"{path}:{self.line_of(text, part)}:" in line)
            self.assertIn(says, line)
        self.assertEqual(len(err.splitlines()), 4)

    def test_policies_come_together_with_line_and_column(self):
        text = toml(arms={"a": "k=q4_7 v=f32", "b": "k=f32 v=f32 window=x", "c": "k=affine4/g64 v=f32"})
        path = self.spec(text)
        err = self.refuse_spec(text, ["q4_7", "window", "affine4/g64"])
        # The place is where the policy begins, after `policy = "`; characters are counted from there.
        for part, says in (("q4_7", "at character 2:"), ("window", "at character 19:"), ("affine4", "affine4/g64")):
            line, = (line for line in err.splitlines() if f"{path}:{self.line_of(text, part)}:11: " in line)
            self.assertIn(says, line)
        self.assertEqual(len(err.splitlines()), 3)

    def test_a_bad_reference(self):
        text = toml(reference='"k=f32"')
        self.refuse_spec(text, [f"{self.spec(text)}:{self.line_of(text, 'reference')}:", "v is missing"])

    def test_a_span_beyond_the_text(self):
        self.refuse_spec(toml(spans="{ends = [400, 90000], length = 48}"), ["90000", "text.txt", "tokens"])

    def test_a_smoke_span_beyond_the_text(self):
        self.refuse_spec(toml(smoke="{end = 90000, length = 16, context = 32}"), ["90000"], "--smoke")

    def test_a_context_beyond_what_the_model_was_trained_for(self):
        self.put("long.txt", (self.folder / "text.txt").read_bytes() * 4)
        self.refuse_spec(toml(text="long.txt", spans="{ends = [5000], length = 48}", contexts="[4064]"),
                         ["4064", "48", "4096", "tiny"])

    def test_a_span_that_begins_before_the_text(self):
        text = toml(spans="{ends = [100], length = 48}")
        self.refuse_spec(text, [f":{self.line_of(text, 'spans')}:", "128", "176"])

    def test_no_toml(self):
        self.refuse_spec('name = "x\n', ["small.toml:1:"])
        self.refuse_spec("[[[", ["small.toml:1:"])
        self.refuse_spec("\0\1\2", ["small.toml:1:"])

    def test_empty(self):
        self.refuse_spec("", "empty")
        err = self.refuse_spec("# nothing", ["name", "model", "arm"])
        self.assertGreater(len(err.splitlines()), 4)

    def test_wrong_types(self):
        err = self.refuse_spec(toml().replace("[64, 128]", '["x", -1]').replace('"small"', "7"), ["contexts", "name"])
        self.assertNotIn("bad_optional", err)

    def test_a_model_or_text_that_is_not_there(self):
        self.refuse_spec(toml(model="nowhere.gguf"), "nowhere.gguf")
        self.refuse_spec(toml(text="nowhere.txt"), "nowhere.txt")

    def test_files_that_are_no_experiment(self):
        pipe = str(self.folder / "pipe.toml")
        os.mkfifo(pipe)
        for path in ("nowhere.toml", str(self.folder), pipe, "/dev/zero"):
            self.refuse("run", path, says=path)
        self.refuse("run", self.put("big.toml", b"#" * (2 << 20)), says="big.toml")
        self.refuse("run", self.model, says="model.gguf")

    def test_too_many_arms_with_one_policy(self):
        self.refuse_spec(toml(arms=ARMS | {"again": ARMS["k8"]}), ["again", "k8"])


if __name__ == "__main__":
    unittest.main()
