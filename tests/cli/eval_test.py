"""kvant eval: the keys that scripts rely on, and numbers that hold without knowing the model."""

import json
import unittest

from program import Case
from tiny_model import expected_ids

FIXED_KEYS = ["arm", "k", "v", "context", "span_end", "scored", "mode", "mean_kl", "p99_kl", "top1", "ppl", "ref_ppl",
              "bpv_k", "bpv_v", "bytes_k", "bytes_v", "seconds"]
SMALL = ["--context", "64", "--score", "32"]
# Of everything that a rerun may change.
TIMES = {"seconds"}


def without(rows, keys):
    return [{key: value for key, value in row.items() if key not in keys} for row in rows]


def arms(*policies):
    return [part for policy in policies for part in ("--arm", policy)]


class Json(Case):
    def test_keys_and_order(self):
        for row in self.eval(*SMALL, *arms("k=q4_0 v=f32", "k=f32 v=affine3/g32")):
            self.assertEqual(list(row)[:len(FIXED_KEYS)], FIXED_KEYS)

    def test_one_object_a_line_and_arm_in_the_given_order(self):
        given = ["k=q4_0 v=f32", "  v=q8_0   k=had+q4_0 window=16 ", "k=f32 v=f32"]
        rows = self.eval(*SMALL, *arms(*given))
        self.assertEqual([row["arm"] for row in rows], given)
        self.assertEqual([(row["k"], row["v"]) for row in rows],
                         [("q4_0", "f32"), ("had+q4_0", "q8_0"), ("f32", "f32")])

    def test_types_and_ranges(self):
        row, = self.eval(*SMALL, *arms("k=q4_0 v=q4_1"))
        self.assertEqual((row["context"], row["span_end"], row["scored"], row["mode"]), (64, 96, 32, "prefill"))
        self.assertGreater(row["mean_kl"], 0)
        self.assertGreaterEqual(row["p99_kl"], row["mean_kl"])
        self.assertTrue(0 <= row["top1"] <= 1)
        self.assertGreater(row["ppl"], 1)
        self.assertGreater(row["seconds"], 0)
        self.assertIsInstance(row["bytes_k"], int)

    def test_an_exact_arm_changes_nothing(self):
        # The last one stores the keys of llama.cpp's channel order, which nothing shares a group in.
        for policy in ("k=f32 v=f32", "k=f32 v=f32 window=8 sinks=2", "k=f32 v=f32 order=interleaved"):
            row, = self.eval(*SMALL, *arms(policy))
            self.assertEqual((row["mean_kl"], row["p99_kl"], row["top1"], row["ppl"]), (0, 0, 1, row["ref_ppl"]))

    def test_a_coarser_codec_costs_more(self):
        rows = self.eval("--context", "256", "--score", "128",
                         *arms("k=q8_0 v=q8_0", "k=q4_0 v=q4_0", "k=affine2/g32 v=affine2/g32"))
        costs = [row["mean_kl"] for row in rows]
        self.assertEqual(costs, sorted(costs))
        self.assertGreater(costs[1], 3 * costs[0])

    def test_text_that_is_not_utf8_cannot_break_the_json(self):
        self.refuse("eval", "-m", self.model, "-f", self.text, "--json", b"--arm", b"k=\xff v=f32",
                    says="at character 2")

    def test_one_scored_token_has_no_target_and_so_no_perplexity(self):
        row, = self.eval("--context", "8", "--score", "1", *arms("k=q4_0 v=f32"))
        self.assertIsNone(row["ppl"])
        self.assertIsNone(row["ref_ppl"])
        self.assertGreater(row["mean_kl"], 0)

    def test_the_table_shows_the_same_numbers(self):
        out = self.succeed("eval", "-m", self.model, "-f", self.text, *SMALL, *arms("k=q4_0 v=f32"))
        row, = self.eval(*SMALL, *arms("k=q4_0 v=f32"))
        self.assertIn(f"{row['mean_kl']:.6f}", out)
        self.assertIn(f"{row['bpv_k']:.4f}", out)
        self.assertEqual(len(out.splitlines()), 4)  # what was measured, units, column names, the arm
        self.assertIn("nats", out)


class Numbers(Case):
    policies = arms("k=q4_0 v=q4_0", "k=had+affine3/g32 v=f16 window=16 sinks=4", "k=f32 v=f32")
    span = ["--context", "300", "--score", "100"]

    def test_threads_do_not_matter(self):
        one, two, three = (without(self.eval(*self.span, *self.policies, "--threads", threads), TIMES)
                           for threads in (1, 2, 3))
        self.assertEqual(one, two)
        self.assertEqual(one, three)

    def test_a_rerun_gives_the_same(self):
        self.assertEqual(without(self.eval(*self.span, *self.policies), TIMES),
                         without(self.eval(*self.span, *self.policies), TIMES))

    def test_chunks_do_not_matter(self):
        # The bound: one chunk of 512 or 64 of 8 give the same KL to 1e-6.
        whole = self.eval(*self.span, *self.policies, "--chunk", "512")
        for chunk in ("8", "7", "1"):
            parts = self.eval(*self.span, *self.policies, "--chunk", chunk)
            for left, right in zip(whole, parts):
                self.assertAlmostEqual(left["mean_kl"], right["mean_kl"], delta=1e-6)
                self.assertAlmostEqual(left["ppl"] / right["ppl"], 1, delta=1e-5)
                self.assertEqual((left["bytes_k"], left["bytes_v"]), (right["bytes_k"], right["bytes_v"]))
            self.assertEqual(parts[2]["mean_kl"], 0)

    def test_keys_only_values_only_and_both_store_different_bytes(self):
        rows = self.eval(*SMALL, *arms("k=q4_0 v=f32", "k=f32 v=q4_0", "k=q4_0 v=q4_0"))
        self.assertEqual(len({row["cache_hash"] for row in rows}), 3)
        self.assertEqual(len({row["mean_kl"] for row in rows}), 3)

    def test_stored_bytes(self):
        # Values: 2 layers x 2 KV heads x 32 x tokens. Bytes a block of 32 values, from ggml's struct definitions;
        # f16 and f32 by definition; affine3/g32: 32 codes of 3 bits, scale and minimum as halves.
        tokens = 64 + 32
        values = 2 * 2 * 32 * tokens
        per_32 = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34, "f16": 64, "bf16": 64, "f32": 128,
                  "affine3/g32": 12 + 4}
        for codec, block in per_32.items():
            for row, side in ((self.eval(*SMALL, *arms(f"k={codec} v=f32"))[0], "k"),
                              (self.eval(*SMALL, *arms(f"k=f32 v={codec}"))[0], "v")):
                self.assertEqual(row[f"bytes_{side}"], values * block // 32, codec)
                self.assertEqual(row[f"bpv_{side}"], 8 * block / 32, codec)

    def test_window_and_sinks_are_stored_exact_and_counted(self):
        row, = self.eval(*SMALL, *arms("k=q4_0 v=f32 window=16 sinks=4"))
        values_a_token = 2 * 2 * 32
        self.assertEqual(row["bytes_k"], values_a_token * 20 * 4 + values_a_token * 76 * 18 // 32)

    def test_layers_can_differ(self):
        row, = self.eval(*SMALL, *arms("k=q4_0 v=f32 k[-1]=f32"))
        self.assertEqual(row["bytes_k"], 96 * 2 * 32 * (4 + 18 / 32))

    def test_another_reference(self):
        row, = self.eval(*SMALL, *arms("k=q4_0 v=f32"), "--reference", "k=q4_0 v=f32")
        self.assertEqual(row["mean_kl"], 0)
        self.assertEqual(row["reference"], "k=q4_0 v=f32")


class Spans(Case):
    text_words = 800

    def test_defaults(self):
        row, = self.eval(*arms("k=q4_0 v=f32"))
        self.assertEqual((row["context"], row["span_end"], row["scored"]), (1024, 1280, 256))

    def test_the_span_follows_its_end(self):
        early, late = (self.eval("--context", "32", "--score", "16", "--span-end", end, *arms("k=q4_0 v=f32"))[0]
                       for end in (48, 500))
        self.assertEqual((early["span_end"], late["span_end"]), (48, 500))
        self.assertNotEqual(early["cache_hash"], late["cache_hash"])

    def test_no_context(self):
        row, = self.eval("--context", "0", "--score", "16", *arms("k=q4_0 v=f32"))
        self.assertEqual((row["context"], row["span_end"]), (0, 16))

    def refuse_span(self, *arguments, **options):
        return self.refuse("eval", "-m", self.model, "-f", self.text, *arms("k=q4_0 v=f32"), *arguments, **options)

    def test_a_span_beyond_the_text(self):
        self.refuse_span("--span-end", "1000000", says=["token 1000000", "has only", "longer text"])

    def test_a_text_that_is_too_short_for_the_defaults(self):
        text = "the cat on the sand"
        short = self.put("short.txt", text.encode())
        self.refuse("eval", "-m", self.model, "-f", short, *arms("k=q4_0 v=f32"),
                    says=["1280", f"has only {len(expected_ids(text))} tokens"])

    def test_a_span_that_begins_before_the_text(self):
        self.refuse_span("--span-end", "50", "--context", "40", "--score", "20", says=["token 50", "token 60"])

    def test_numbers_that_are_none(self):
        for option in ("--span-end", "--score", "--context", "--chunk", "--threads", "--realizations"):
            for value in ("-1", "x", "1.5", "", "1e3", "99999999999999999999999", "9223372036854775808"):
                err = self.refuse_span(f"{option}={value}", code=2, says=option)
                self.assertEqual(len(err.splitlines()), 1, err)
        for option in ("--span-end", "--score", "--chunk", "--threads"):
            self.refuse_span(f"{option}=0", code=2, says=option)

    def test_more_tokens_than_the_model_was_trained_for_is_a_warning(self):
        text = self.put("long.txt", (self.folder / "text.txt").read_bytes() * 3)
        code, out, err = self.kvant("eval", "-m", self.model, "-f", text, "--context", "4090", "--score", "16",
                                    "--json", *arms("k=q4_0 v=f32"))
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["context"], 4090)
        self.assert_messages(err)
        self.assertIn("4106", err)
        self.assertIn("4096", err)


class Policies(Case):
    def refuse_policy(self, policy, **options):
        return self.refuse("eval", "-m", self.model, "-f", self.text, *SMALL, "--arm", policy, **options)

    def test_errors_point_at_the_character(self):
        for policy, at in (("k=q4_7 v=f32", 2), ("k=q4_0 v=f33", 9), ("k=q4_0 q=f32", 7), ("k=q4_0", 6), ("", 0),
                           ("k=q4_0 v=f32 window=x", 20), ("k=q4_0 v=f32 k[a]=f32", 15), ("nonsense", 0)):
            self.refuse_policy(policy, says=[f"at character {at}:", f'"{policy}"'])

    def test_what_the_model_cannot_store_is_refused_by_name(self):
        self.refuse_policy("k=affine4/g64 v=f32", says=["affine4/g64", "32"])
        self.refuse_policy("k=had64+q4_0 v=f32", says=["had64", "32"])
        self.refuse_policy("k=q4_0 v=f32 k[7]=f32", says=["7", "2"])

    def test_all_arms_are_checked_before_one_runs(self):
        self.refuse("eval", "-m", self.model, "-f", self.text, *SMALL, *arms("k=q4_0 v=f32", "k=q4_0 v=zzz"),
                    says="zzz")

    def test_a_bad_reference(self):
        self.refuse("eval", "-m", self.model, "-f", self.text, *SMALL, *arms("k=q4_0 v=f32"), "--reference", "k=f32",
                    says="v is missing")


class Bos(Case):
    """A vocabulary that asks for BOS gets one before the context, and it is not counted in it."""

    model_options = {"add_bos": True}

    def test_it_is_outside_of_the_context(self):
        row, = self.eval(*SMALL, *arms("k=f16 v=f32"))
        self.assertEqual((row["context"], row["span_end"], row["scored"]), (64, 96, 32))
        # 64 + 32 tokens and the BOS are stored: 2 layers x 2 heads x 32 values of 2 bytes each.
        self.assertEqual(row["bytes_k"], 97 * 2 * 2 * 32 * 2)

    def test_the_ids_of_a_text_do_not_have_it(self):
        out = self.succeed("tokenize", "-m", self.model, "-f", self.put("a.txt", b"a"))
        self.assertEqual(out, "97\n")


class HeadsOf64(Case):
    model_options = {"head_dim": 64, "tied": False}

    def test_formats_of_64_values(self):
        row, = self.eval(*SMALL, *arms("k=had64+q4_0 v=affine4/g64"))
        self.assertEqual(row["bytes_k"], 96 * 2 * 2 * 64 * 18 // 32)
        self.assertEqual(row["bytes_v"], 96 * 2 * 2 * (64 * 4 // 8 + 4))
        self.assertGreater(row["mean_kl"], 0)


if __name__ == "__main__":
    unittest.main()
