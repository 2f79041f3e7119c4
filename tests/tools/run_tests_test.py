"""tools/run_tests with steps of its own: what is remembered, what CI refuses, and how the output ends."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from scripts import load, write

run_tests = load("run_tests")
Skip = run_tests.ctest_report.Skip


class RunTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.ran = []
        self.outcomes = {"layers": run_tests.Outcome(passed=1), "build": run_tests.Outcome(passed=1),
                         "ctest": run_tests.Outcome(passed=40)}
        write(self.root / "src/a.cc", "int a;\n")
        write(self.root / "tools/allowed_skips", "^this CPU has no\n")
        environment = {"KVANT_MODEL_SMOLLM2": str(write(self.root / "model.gguf", "model"))}
        steps = {name: self.step(name) for name in self.outcomes}
        for patch in (mock.patch.object(run_tests, "ROOT", self.root),
                      mock.patch.object(run_tests, "STAMPS", self.root / "build" / ".stamps"),
                      mock.patch.dict(run_tests.STEPS, steps, clear=True),
                      mock.patch.dict(os.environ, environment)):
            patch.start()
            self.addCleanup(patch.stop)
        for name in ("CI", "FORCE", "KVANT_TEXTS"):
            os.environ.pop(name, None)

    def step(self, name):
        def run(context):
            self.ran.append(name)
            return self.outcomes[name]
        return run

    def run_all(self, **variables):
        self.ran.clear()
        out = io.StringIO()
        with mock.patch.dict(os.environ, variables), contextlib.redirect_stdout(out):
            code = run_tests.main([])
        return code, out.getvalue()

    def test_ends_with_the_count(self):
        code, out = self.run_all()
        self.assertEqual(code, 0)
        self.assertEqual(out.splitlines()[-1], "42 passed, 0 failed")

    def test_an_unchanged_tree_is_not_tested_again_and_says_so(self):
        self.run_all()
        code, out = self.run_all()
        self.assertEqual((code, self.ran), (0, ["layers", "build"]))
        self.assertRegex(out, r"ctest: not run, nothing it depends on has changed since it passed at \d{4}-")
        self.assertIn("40 cases passed earlier and were not run again", out)
        self.assertEqual(out.splitlines()[-1], "2 passed, 0 failed")

    def test_every_change_counts(self):
        def edit():
            write(self.root / "src/a.cc", "int b;\n")

        def add():
            write(self.root / "src/b.cc", "")

        def executable():
            os.chmod(self.root / "src/a.cc", 0o755)

        def model():
            write(self.root / "model.gguf", "another")

        for change in (edit, add, executable, model):
            with self.subTest(change=change.__name__):
                self.run_all()
                self.run_all()
                self.assertNotIn("ctest", self.ran)
                change()
                self.run_all()
                self.assertIn("ctest", self.ran)
        self.run_all(KVANT_TARGET="SSE2")
        self.assertIn("ctest", self.ran)

    def test_ci_and_force_remember_nothing(self):
        self.run_all()
        for variables in ({"CI": "true"}, {"FORCE": "1"}):
            self.run_all(**variables)
            self.assertEqual(self.ran, ["layers", "build", "ctest"])
        self.run_all(CI="", FORCE="0")
        self.assertNotIn("ctest", self.ran)

    def test_a_failure_is_not_remembered(self):
        self.run_all()
        self.outcomes["ctest"] = run_tests.Outcome(passed=39, failed=1, problem="failed: codec_test")
        code, out = self.run_all(FORCE="1")
        self.assertEqual((code, out.splitlines()[-1]), (1, "41 passed, 1 failed"))
        self.assertEqual(self.run_all()[0], 1)
        self.assertIn("ctest", self.ran)

    def test_no_tests_after_a_failed_build(self):
        self.outcomes["build"] = run_tests.Outcome(failed=1, problem="cmake failed")
        code, out = self.run_all()
        self.assertEqual((code, self.ran), (1, ["layers", "build"]))
        self.assertIn("not run: the build failed", out)

    def test_skips_are_shown(self):
        self.outcomes["ctest"] = run_tests.Outcome(passed=39, skips=[Skip("t: A.B", "this CPU has no AVX-512")])
        _, out = self.run_all()
        self.assertIn("skipped: t: A.B: this CPU has no AVX-512\n", out)
        self.assertEqual(out.splitlines()[-1], "41 passed, 0 failed, 1 skipped")

    def test_an_unknown_step(self):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(run_tests.main(["lints"]), 2)
        self.assertIn('"lints" is not a step', err.getvalue())


class Ctest(unittest.TestCase):
    """run_tests.ctest on real ctest runs of a project made here, without a compiler."""

    def ctest(self, script, ci, **environment):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            write(root / "tools/allowed_skips", "^this CPU has no\n")
            write(root / "program", "#!/bin/sh\n" + script, executable=True)
            write(root / "build/CTestTestfile.cmake", f'add_test(program "{root}/program")\n')
            (root / "stamps").mkdir()
            context = run_tests.Context({"PATH": os.environ["PATH"], **environment}, ci, False, "")
            with mock.patch.object(run_tests, "ROOT", root), mock.patch.object(run_tests, "STAMPS", root / "stamps"), \
                    mock.patch.object(run_tests, "run", self.quiet_run), contextlib.redirect_stdout(io.StringIO()):
                return run_tests.ctest(context, root / "build", [])

    @staticmethod
    def quiet_run(context, *command):
        return run_tests.subprocess.run(command, env=context.environment, capture_output=True).returncode

    @staticmethod
    def skipping(reason):
        return ("cat <<'END'\n[==========] Running 2 tests from 1 test suite.\n[ RUN      ] A.B\nx.cc:1: Skipped\n"
                f"{reason}\n[  SKIPPED ] A.B (0 ms)\n[==========] 2 tests from 1 test suite ran. (0 ms total)\n"
                "[  PASSED  ] 1 test.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.B\nEND\n")

    def test_ci_refuses_a_skip_that_is_not_allowed(self):
        outcome = self.ctest(self.skipping("no model here"), ci=True)
        self.assertEqual((outcome.passed, outcome.failed), (1, 1))
        self.assertRegex(outcome.problem, re.escape("program: A.B was skipped (no model here)"))

    def test_elsewhere_it_is_only_shown(self):
        outcome = self.ctest(self.skipping("no model here"), ci=False)
        self.assertEqual((outcome.passed, outcome.failed, outcome.skips),
                         (1, 0, [("program: A.B", "no model here")]))

    def test_allowed_in_ci(self):
        self.assertEqual(self.ctest(self.skipping("this CPU has no AVX-512"), ci=True).problem, "")
        self.assertEqual(self.ctest(self.skipping("KVANT_TEXTS is not set"), ci=True).problem, "")
        self.assertNotEqual(self.ctest(self.skipping("KVANT_TEXTS is not set"), ci=True, KVANT_TEXTS="/t").problem, "")

    def test_long_output_is_read_to_its_end(self):
        script = "for i in $(seq 5000); do echo 'a line that fills the report'; done\n" + self.skipping("no model here")
        self.assertEqual(len(self.ctest(script, ci=False).skips), 1)

    def test_a_failed_program(self):
        outcome = self.ctest("exit 3", ci=False)
        self.assertEqual((outcome.passed, outcome.failed, outcome.problem), (0, 1, "failed: program"))


if __name__ == "__main__":
    unittest.main()
