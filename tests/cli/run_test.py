"""kvant run: tables, files, verdicts, and what a second run does."""

import os
import sqlite3
import unittest

from experiment import ARMS, RunCase, toml
from program import SECONDS
from tiny_model import tiny_model, words

# Five cells: one span, one context.
SMALL = {"spans": "[{end = 200, length = 16}]", "contexts": "[32]"}


def verdict_of(out, bar):
    return next(line for line in out.splitlines() if f" {bar}: " in line).split(bar)[0].strip()


class Run(RunCase):
    def test_results(self):
        out = self.run_spec(toml())
        for name in (*ARMS, "Which hurts more?", f"{self.out}/results.csv", f"{self.out}/results.db"):
            self.assertIn(name, out)
        rows = self.rows()
        # 3 arms x 2 spans x 2 contexts, and per context an identity and a floor.
        self.assertEqual(len(rows), 16)
        self.assertEqual({row["status"] for row in rows}, {"ok"})
        for row in rows:
            self.assertEqual(int(row["scored_tokens"]), 48)
            if row["policy"] == "k=f32 v=f32" and row["chunk_tokens"] == "512":
                self.assertEqual(float(row["mean_kl_nats"]), 0)

    def test_cells_agree_with_eval(self):
        self.run_spec(toml())
        for row in self.rows():
            same, = self.eval("--arm", row["policy"], "--context", row["context_tokens"], "--score", "48", "--span-end",
                              row["span_end_tokens"], "--chunk", row["chunk_tokens"])
            self.assertEqual(row["cache_hash"], same["cache_hash"])
            if row["chunk_tokens"] == "512":
                self.assertEqual(float(row["mean_kl_nats"]), same["mean_kl"])
                self.assertEqual(float(row["ppl"]), same["ppl"])

    def test_a_second_run_measures_nothing_and_shows_the_same(self):
        first = self.run_spec(toml())
        before = self.rows()
        second = self.run_spec(toml())
        self.assertEqual(self.rows(), before)
        self.assertIn("All 16 cells were there already: nothing was measured.", second)
        self.assertNotIn("there already", first)
        for line in first.splitlines():
            self.assertIn(line, second)

    def test_the_default_folder(self):
        code, out, err = self.kvant("run", self.spec(toml(arms={"k8": ARMS["k8"]})))
        self.assertEqual(code, 0, err)
        self.assertIn("results/small/results.csv", out)
        self.assertTrue((self.folder / "results/small/results.db").is_file())

    def test_threads_do_not_matter(self):
        self.run_spec(toml(), "--threads", "1")
        one = self.numbers()
        self.out = self.out.with_name("two_threads")
        self.run_spec(toml(), "--threads", "2")
        self.assertEqual(self.numbers(), one)

    def test_an_exact_arm_is_not_measured_twice(self):
        out = self.run_spec(toml(arms={"exact": "k=f32 v=f32", "k8": ARMS["k8"]}, **SMALL))
        self.assertEqual(sorted(row["arm"] for row in self.rows()), ["exact", "floor", "k8"])
        self.assertIn("exact", out)

    def test_model_and_text_of_the_command_line(self):
        other_model = self.put("other.gguf", tiny_model(seed=2))
        other_text = self.put("other.txt", words(300, 9).encode())
        self.run_spec(toml(model="nowhere.gguf", text="nowhere.txt"), "-m", self.model, "-f", self.text)
        base = self.numbers()
        for arguments in (["-m", other_model], ["-f", other_text]):
            self.run_spec(toml(), *arguments)
            changed = self.numbers()
            self.assertEqual(len(changed), len(base))
            self.assertNotEqual(changed, base)
        self.run_spec(toml())
        self.assertEqual(self.numbers(), base)

    def test_bos(self):
        model = self.put("bos.gguf", tiny_model(add_bos=True))
        self.run_spec(toml(), "-m", model)
        for row in self.rows():
            tokens = int(row["context_tokens"]) + 48 + 1
            self.assertEqual(int(row["values_k"]), tokens * 2 * 2 * 32)

    def test_smoke(self):
        out = self.run_spec(toml(bars={"bar": "mean kl(k2) < mean kl(k8) at 128"}), "--smoke", "--strict")
        self.assertIn("smoke", out)
        full = self.run_spec(toml())
        full_rows = self.rows()
        self.assertEqual(len(full_rows), 16)
        again = self.run_spec(toml(), "--smoke")
        self.assertIn("there already", again)
        self.assertEqual(self.rows(), full_rows)  # a smoke run does not replace what was measured
        self.assertIn("k2", full)

    def test_a_result_that_cannot_be_written(self):
        spec = self.spec(toml())
        in_the_way = self.put("a_file", b"")
        for out in (in_the_way, in_the_way + "/below", "/proc/kvant"):
            self.refuse("run", spec, "-o", out, says=[out, "--out"])
        os.makedirs(self.out / "results.csv")
        code, _, err = self.kvant("run", spec, "-o", self.out)
        self.assertEqual(code, 1)
        self.assertIn("results.csv", err)
        self.assertIn("kvant: ", err)

    def test_standard_output_that_cannot_be_written_does_not_lose_the_cells(self):
        with open("/dev/full", "wb") as full:
            code, _, err = self.kvant("run", self.spec(toml()), "-o", self.out, stdout=full)
        self.assertEqual(code, 1)
        self.assertIn("kvant: the output could not be written", err)
        self.assertEqual(len(self.rows()), 16)


    def test_cells_that_fail_are_shown_with_their_reason_and_tried_again(self):
        spec = self.spec(toml(**SMALL, bars={"bar": "mean kl(k2) > mean kl(k8) at 32"}))
        broken = self.put("broken.gguf", tiny_model(broken=True))
        for _ in range(2):
            code, out, err = self.kvant("run", spec, "-m", broken, "-o", self.out)
            self.assertEqual(code, 1)
            self.assertIn("kvant: 5 of 5 cells failed", err)
            self.assertEqual(verdict_of(out, "bar"), "MISSING")
            rows = self.rows()
            self.assertEqual(len(rows), 5)
            for row in rows:
                self.assertEqual((row["status"], row["mean_kl_nats"]), ("failed", ""))
                self.assertIn("not finite", row["reason"])

    def test_two_at_once(self):
        processes = [self.start("run", self.spec(toml()), "-o", self.out) for _ in range(2)]
        for process in processes:
            _, err = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 0, err)
        both = self.numbers()
        self.out = self.out.with_name("alone")
        self.run_spec(toml())
        self.assertEqual(both, self.numbers())


class Changes(RunCase):
    """Cells of one spec are never shown as another's, although they share a database."""

    def test_a_changed_spec(self):
        self.run_spec(toml(**SMALL))
        base = self.numbers()
        changes = {
            "policy": toml(arms=ARMS | {"k2": "k=affine3/g32 v=f32"}, **SMALL),
            "chunk": toml(chunk=32, **SMALL),
            "contexts": toml(**SMALL | {"contexts": "[32, 64]"}),
            "spans": toml(**SMALL | {"spans": "[{end = 201, length = 16}]"}),
            "reference": toml(reference='"k=f16 v=f16"', **SMALL),
            "arms": toml(arms=ARMS | {"more": "k=q4_0 v=q4_0"}, **SMALL),
        }
        for what, text in changes.items():
            with self.subTest(what):
                out = self.run_spec(text)
                self.assertNotIn("there already", out)
                self.assertNotEqual(self.numbers(), base)
                fresh = self.out
                shown = self.numbers()
                self.out = fresh.with_name("fresh_" + what)
                self.run_spec(text)
                self.assertEqual(self.numbers(), shown)
                self.out = fresh
        self.assertIn("there already", self.run_spec(toml(**SMALL)))
        self.assertEqual(self.numbers(), base)

    def test_a_renamed_arm_keeps_its_cells_under_the_new_name(self):
        self.run_spec(toml())
        renamed = {"fine": ARMS["k8"], "coarse": ARMS["k2"], "values": ARMS["v2"]}
        out = self.run_spec(toml(arms=renamed, bars={"bar": "mean kl(coarse) > mean kl(fine) at 128"}))
        self.assertIn("there already", out)
        self.assertIn("PASS", out)
        names = {row["policy"]: row["arm"] for row in self.rows() if row["policy"] != "k=f32 v=f32"}
        self.assertEqual(names, {policy: name for name, policy in renamed.items()})

    def test_swapped_names(self):
        self.run_spec(toml())
        swapped = {"k2": ARMS["k8"], "k8": ARMS["k2"], "v2": ARMS["v2"]}
        out = self.run_spec(toml(arms=swapped, bars={"bar": "mean kl(k8) > mean kl(k2) at 128"}))
        self.assertIn("there already", out)
        self.assertEqual(verdict_of(out, "bar"), "PASS")

    def test_words_and_bars_do_not_change_a_cell(self):
        self.run_spec(toml())
        text = toml(bars={"new": "mean kl(k2) > mean kl(k8) at 128"}, seed=7).replace("Which", "Who") + "# a comment\n"
        self.assertIn("there already", self.run_spec(text))


class Verdicts(RunCase):
    bars = {
        "coarse hurts": "mean kl(k2) > mean kl(k8) at 128",
        "counted": "kl(k2) > kl(k8) in >= 4 of 4 pairs",
        "wrong way": "mean kl(k2) < mean kl(k8) at 128",
        "against itself": "mean kl(k2) > mean kl(k2) at 128",
        "nothing changed": "mean kl(exact) < 0.5 at 128",
    }

    def test_all_of_them(self):
        arms = ARMS | {"exact": "k=f32 v=f32"}
        out = self.run_spec(toml(arms=arms, bars=self.bars))
        self.assertEqual({bar: verdict_of(out, bar) for bar in self.bars},
                         {"coarse hurts": "PASS", "counted": "PASS", "wrong way": "NOT MET",
                          "against itself": "MISTRUSTED", "nothing changed": "MISTRUSTED"})
        self.assertIn("5 bars: 2 PASS, 1 NOT MET, 2 MISTRUSTED", out)

    def test_arms_that_store_the_same_bytes(self):
        out = self.run_spec(toml(arms={"a": "k=q4_0 v=f32", "b": "v=f32 k=q4_0"},
                                 bars={"bar": "kl(a) > kl(b) in >= 1 of 2 spans at 64"}))
        self.assertEqual(verdict_of(out, "bar"), "MISTRUSTED")

    def test_strict(self):
        good = {"coarse hurts": self.bars["coarse hurts"]}
        self.run_spec(toml(bars=good), "--strict")
        self.run_spec(toml(bars=good | {"wrong way": self.bars["wrong way"]}), "--strict", code=3)
        self.run_spec(toml(bars=good | {"itself": self.bars["against itself"]}), "--strict", code=3)
        self.run_spec(toml(bars=good | {"wrong way": self.bars["wrong way"]}))
        self.run_spec(toml(), "--strict")


class Databases(RunCase):
    def refuse_database(self, says):
        before = (self.out / "results.db").read_bytes()
        self.refuse("run", self.spec(toml()), "-o", self.out, says=["results.db", *says])
        self.assertEqual((self.out / "results.db").read_bytes(), before)

    def test_of_another_program(self):
        os.makedirs(self.out)
        with sqlite3.connect(self.out / "results.db") as database:
            database.execute("CREATE TABLE bookmarks (address TEXT)")
        database.close()
        self.refuse_database(["another program"])

    def test_no_database(self):
        os.makedirs(self.out)
        for data in (b"x", b"hello, world\n" * 1000):
            (self.out / "results.db").write_bytes(data)
            self.refuse_database(["not a results database"])

    def test_damaged(self):
        self.run_spec(toml())
        whole = bytearray((self.out / "results.db").read_bytes())
        for begin in range(4096, len(whole), 4096):
            whole[begin:begin + 64] = b"\xa5" * 64
        (self.out / "results.db").write_bytes(whole)
        self.refuse_database(["damaged", "move it away"])

    def test_truncated(self):
        self.run_spec(toml())
        whole = (self.out / "results.db").read_bytes()
        (self.out / "results.db").write_bytes(whole[:len(whole) // 2])
        self.refuse_database(["damaged"])

    def test_a_folder_in_its_place(self):
        os.makedirs(self.out / "results.db")
        self.refuse("run", self.spec(toml()), "-o", self.out, says="results.db")

    def test_an_empty_file_counts_as_new(self):
        os.makedirs(self.out)
        (self.out / "results.db").write_bytes(b"")
        self.run_spec(toml())


if __name__ == "__main__":
    unittest.main()
