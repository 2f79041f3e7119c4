"""Help, version and arguments that do not exist."""

import unittest

from program import Case

VERBS = [["run"], ["eval"], ["tokenize"], ["codecs"], ["doctor"], ["bench"], ["bench", "prefill"]]


class Arguments(Case):
    def test_help(self):
        for verb in [[], *VERBS]:
            for flag in ("--help", "-h"):
                code, out, err = self.kvant(*verb, flag)
                self.assertEqual((code, err), (0, ""))
                self.assertIn("--help", out)
                self.assertIn(" ".join(["Usage: kvant", *verb]), out)

    def test_every_option_is_described(self):
        for verb in VERBS:
            out = self.succeed(*verb, "--help")
            for line in out.splitlines():
                if line.startswith("  -"):
                    self.assertGreater(len(line.split("  ")[-1].strip()), 10, line)

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"^kvant \d+\.\d+\.\d+\n$")

    def test_no_verb(self):
        self.refuse(code=2, says="--help")
        self.refuse("bench", code=2, says="--help")

    def test_unknown(self):
        self.refuse("measure", code=2, says=["measure", "--help"])
        self.refuse("--frobnicate", code=2, says=["--frobnicate", "--help"])
        for verb in VERBS:
            required = {"run": ["x.toml"], "eval": ["-m", "m", "-f", "t", "--arm", "k=f32 v=f32"],
                        "tokenize": ["-m", "m", "-f", "t"], "bench": ["-m", "m"]}.get(verb[0], [])
            if verb == ["bench"]:
                required = []
            err = self.refuse(*verb, *required, "--frobnicate", code=2, says="kvant " + " ".join(verb) + " --help")
            if verb != ["bench"]:
                self.assertIn("--frobnicate", err)

    def test_missing_ones(self):
        self.refuse("eval", "-f", "t", "--arm", "k=f32 v=f32", code=2, says="--model")
        self.refuse("eval", "-m", "m", "--arm", "k=f32 v=f32", code=2, says="--text")
        self.refuse("eval", "-m", "m", "-f", "t", code=2, says="--arm")
        self.refuse("eval", "-m", "m", "-f", "t", "--arm", code=2, says="--arm")
        self.refuse("run", code=2, says="experiment")

    def test_too_many(self):
        self.refuse("codecs", "more", code=2, says="more")
        self.refuse("run", "a.toml", "b.toml", code=2, says="b.toml")
        self.refuse("eval", "-m", "m", "-m", "n", "-f", "t", "--arm", "k=f32 v=f32", code=2, says="--model")

    def test_arguments_of_any_bytes(self):
        self.kvant(b"\xff\xfe")
        self.kvant("eval", b"-m", b"\xff", b"-f", b"\xfe", b"--arm", b"k=\x01 v=\xc3")


if __name__ == "__main__":
    unittest.main()
