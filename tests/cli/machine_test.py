"""kvant codecs, doctor and bench prefill."""

import json
import os
import pwd
import resource
import unittest

from program import Case


class Codecs(Case):
    def test_json(self):
        rows = [json.loads(line) for line in self.succeed("codecs", "--json").splitlines()]
        bits = {row["codec"]: row["bits_per_value"] for row in rows}
        self.assertEqual(list(rows[0]), ["codec", "bits_per_value", "about"])
        # ggml's blocks of 32 values: 18, 20, 22, 24 and 34 bytes.
        for codec, expected in {"f32": 32, "f16": 16, "bf16": 16, "q4_0": 4.5, "q4_1": 5, "q5_0": 5.5, "q5_1": 6,
                                "q8_0": 8.5, "affine4/g64": 4.5}.items():
            self.assertEqual(bits[codec], expected, codec)

    def test_the_table_has_the_same_codecs(self):
        out = self.succeed("codecs")
        for line in self.succeed("codecs", "--json").splitlines():
            row = json.loads(line)
            bits = "-" if row["bits_per_value"] is None else f"{row['bits_per_value']:.4f}"
            self.assertRegex(out, rf"(?m)^{row['codec']} +{bits}  \S")

    def test_what_a_head_size_rules_out_is_named(self):
        rows = [json.loads(line) for line in self.succeed("codecs", "--json", "--head-dim", "40").splitlines()]
        row, = (row for row in rows if row["codec"] == "q4_0")
        self.assertIsNone(row["bits_per_value"])
        self.assertIn("40", row["refused"])
        self.assertIn(row["refused"], self.succeed("codecs", "--head-dim", "40"))

    def test_sizes_that_are_none(self):
        for value in ("0", "-8", "x", "4000000000"):
            self.refuse("codecs", f"--head-dim={value}", code=2, says="--head-dim")
            self.refuse("codecs", f"--kv-heads={value}", code=2, says="--kv-heads")


class Doctor(Case):
    def targets(self):
        out = self.succeed("doctor")
        line, = (line for line in out.splitlines() if line.startswith("SIMD"))
        return line.split(" have ")[1].split(" (")[0].split(", ")

    def test_a_forced_target_is_what_runs(self):
        for target in self.targets():
            self.assertRegex(self.succeed("doctor", environment={"KVANT_TARGET": target}),
                             rf"(?m)^SIMD +{target} is active; .*{', '.join(self.targets())}")

    def test_every_target_gives_the_same_bytes(self):
        arguments = ["--context", "64", "--score", "16", "--arm", "k=q8_0 v=f32"]
        rows = [self.eval(*arguments, environment={"KVANT_TARGET": target})[0] for target in self.targets()]
        for row in rows:
            self.assertAlmostEqual(row["ref_ppl"] / rows[0]["ref_ppl"], 1, delta=1e-4)
            self.assertEqual(row["bytes_k"], rows[0]["bytes_k"])

    def test_an_unknown_target(self):
        self.refuse("doctor", code=2, environment={"KVANT_TARGET": "PENTIUM"},
                    says=["KVANT_TARGET", "PENTIUM", *self.targets()])

    def test_places(self):
        out = self.succeed("doctor", environment={"KVANT_CACHE": str(self.folder / "elsewhere")})
        self.assertIn(str(self.folder / "elsewhere/models"), out)
        out = self.succeed("doctor", environment={"KVANT_CACHE": None})
        self.assertIn(str(self.folder / "home/.cache/kvant/models"), out)

    def test_without_home_the_account_says_where_it_is(self):
        # As Python's Path.home() has it, which tools/fetch_model uses.
        home = pwd.getpwuid(os.getuid()).pw_dir
        out = self.succeed("doctor", environment={"KVANT_CACHE": None, "HOME": None})
        self.assertIn(f"{home}/.cache/kvant/models", out)

    def test_a_fetched_model_is_found(self):
        path = self.put("cache/models/SmolLM2-135M-Instruct.Q4_1.gguf", b"anything")
        self.addCleanup(os.remove, path)
        self.assertIn(path, self.succeed("doctor"))


class BenchPrefill(Case):
    quick = ["--chunk", "16", "--repetitions", "1"]

    def test_json(self):
        out = self.succeed("bench", "prefill", "-m", self.model, *self.quick, "--depth", "0,64", "--json", "--arm",
                           "k=f32 v=f32", "--arm", "k=q4_0 v=q4_0", "--threads", "2")
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual({(row["arm"], row["depth"]) for row in rows},
                         {(arm, depth) for arm in ("k=f32 v=f32", "k=q4_0 v=q4_0") for depth in (0, 64)})
        for row in rows:
            for key in ("seconds", "tokens_per_s", "gflop_per_s", "sgemm_gflop_per_s", "sgemm_share", "time_ratio"):
                self.assertGreater(row[key], 0, key)
            self.assertEqual((row["chunk"], row["threads"]), (16, 2))
            if row["arm"] == "k=f32 v=f32":
                self.assertEqual(row["time_ratio"], 1)

    def test_table(self):
        out = self.succeed("bench", "prefill", "-m", self.model, *self.quick, "--depth", "8")
        self.assertEqual(len(out.splitlines()), 5)  # model, sgemm, column names, two arms
        self.assertIn("k=q4_0 v=q4_0", out)

    def test_errors(self):
        self.refuse("bench", "prefill", "-m", self.model, "--arm", "k=q4_0", says="v is missing")
        self.refuse("bench", "prefill", "-m", self.model, "--arm", "k=affine4/g64 v=f32", says="affine4/g64")
        for option in ("--depth", "--chunk", "--repetitions"):
            self.refuse("bench", "prefill", "-m", self.model, f"{option}=-1", code=2, says=option)

    def test_too_little_memory(self):
        limit = 1 << 29
        if os.environ.get("KVANT_SANITIZED") == "1":
            self.skipTest("AddressSanitizer reserves terabytes of addresses")
        code, out, err = self.kvant("bench", "prefill", "-m", self.model, *self.quick, "--depth", "4000000",
                                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertEqual((code, out), (1, ""), err)
        self.assertIn("memory", err.splitlines()[-1])
        self.assert_messages(err)


if __name__ == "__main__":
    unittest.main()
