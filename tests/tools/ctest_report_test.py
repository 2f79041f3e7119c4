"""tools/ctest_report.py on what GoogleTest 1.12, unittest and ctest 3.25 really print (captured from runs of them)."""

import re
import sys
import tempfile
import unittest
from pathlib import Path
from xml.sax.saxutils import escape

from scripts import TOOLS, write

sys.path.insert(0, str(TOOLS))
import ctest_report  # noqa: E402

GTEST_WITH_SKIPS = """\
Running main() from ./googletest/src/gtest_main.cc
[==========] Running 4 tests from 2 test suites.
[----------] Global test environment set-up.
[----------] 3 tests from Codec
[ RUN      ] Codec.Runs
[       OK ] Codec.Runs (0 ms)
[ RUN      ] Codec.NeedsTexts
s.cc:3: Skipped
KVANT_TEXTS is not set
[  SKIPPED ] Codec.NeedsTexts (0 ms)
[ RUN      ] Codec.Silent
s.cc:4: Skipped

[  SKIPPED ] Codec.Silent (0 ms)
[----------] 3 tests from Codec (0 ms total)

[----------] 1 test from All/P
[ RUN      ] All/P.Wide/0
s.cc:6: Skipped
this CPU has no AVX-512
second line
[  SKIPPED ] All/P.Wide/0 (0 ms)
[----------] 1 test from All/P (0 ms total)

[----------] Global test environment tear-down
[==========] 4 tests from 2 test suites ran. (0 ms total)
[  PASSED  ] 1 test.
[  SKIPPED ] 3 tests, listed below:
[  SKIPPED ] Codec.NeedsTexts
[  SKIPPED ] Codec.Silent
[  SKIPPED ] All/P.Wide/0
"""
# The end lists skipped and failed cases once more, in the same words as where they ran.
GTEST_SKIP_BEFORE_OTHERS = """\
[==========] Running 3 tests from 1 test suite.
[ RUN      ] Codec.NeedsTexts
s.cc:3: Skipped
KVANT_TEXTS is not set
[  SKIPPED ] Codec.NeedsTexts (0 ms)
[ RUN      ] Codec.Fails
s.cc:7: Failure
Failed
broken
[  FAILED  ] Codec.Fails (0 ms)
[ RUN      ] Codec.Runs
[       OK ] Codec.Runs (0 ms)
[----------] 3 tests from Codec (0 ms total)

[----------] Global test environment tear-down
[==========] 3 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Codec.NeedsTexts
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Codec.Fails

 1 FAILED TEST
"""
GTEST_FAILED = """\
[==========] 5 tests from 2 test suites ran. (0 ms total)
[  PASSED  ] 3 tests.
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] Codec.Fails
[  FAILED  ] Codec.FailsToo

 2 FAILED TESTS
"""
GTEST_DISABLED = """\
[==========] 2 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 2 tests.

  YOU HAVE 1 DISABLED TEST

"""
GTEST_NOTHING = "[==========] 0 tests from 0 test suites ran. (0 ms total)\n[  PASSED  ] 0 tests.\n"
GTEST_CRASHED = "[==========] Running 3 tests from 1 test suite.\n[ RUN      ] Codec.Crashes\n"
UNITTEST = """\
test_doc (u.A.test_doc)
Has a doc line. ... skipped 'later'
test_ok (u.A.test_ok) ... ok
test_skip (u.A.test_skip) ... skipped "no 'texts' here"

----------------------------------------------------------------------
Ran 3 tests in 0.000s

OK (skipped=2)
"""


def junit(*testcases):
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="(empty)">{"".join(testcases)}</testsuite>\n'


def program(name, output, status="run", inner=""):
    return (f'<testcase name="{name}" classname="{name}" time="0.1" status="{status}">{inner}'
            f"<system-out>{escape(output)}</system-out></testcase>")


class Read(unittest.TestCase):
    def read(self, *testcases):
        with tempfile.TemporaryDirectory() as folder:
            return ctest_report.read(write(Path(folder, "report.xml"), junit(*testcases)))

    def test_skips_inside_a_passed_program(self):
        report = self.read(program("codec_test", GTEST_WITH_SKIPS))
        self.assertEqual((report.programs, report.cases, report.passed_cases, report.failed_cases), (1, 4, 1, 0))
        self.assertEqual(report.skips, [("codec_test: Codec.NeedsTexts", "KVANT_TEXTS is not set"),
                                        ("codec_test: Codec.Silent", "no reason given"),
                                        ("codec_test: All/P.Wide/0", "this CPU has no AVX-512 second line")])

    def test_the_list_at_the_end_is_not_counted_again(self):
        report = self.read(program("codec_test", GTEST_SKIP_BEFORE_OTHERS, "fail"))
        self.assertEqual(report.skips, [("codec_test: Codec.NeedsTexts", "KVANT_TEXTS is not set")])
        self.assertEqual((report.passed_cases, report.failed_cases), (1, 1))

    def test_python(self):
        report = self.read(program("u", UNITTEST))
        self.assertEqual((report.cases, report.passed_cases), (3, 1))
        self.assertEqual(report.skips, [("u: test_skip", "no 'texts' here"), ("u: a case", "no reason given")])

    def test_failures(self):
        report = self.read(program("f", GTEST_FAILED, "fail"), program("c", GTEST_CRASHED, "fail"))
        self.assertEqual((report.failed, report.failed_cases), (["f", "c"], 3))
        self.assertEqual((report.cases, report.passed_cases), (6, 3))

    def test_a_failure_outside_of_the_cases(self):  # a leak found at exit, say
        report = self.read(program("codec_test", GTEST_WITH_SKIPS, "fail"))
        self.assertEqual((report.failed, report.failed_cases), (["codec_test"], 1))

    def test_what_ran_nothing_is_a_skip(self):
        missing = '<skipped message="Unable to find executable"/>'
        report = self.read(program("gone", "", "notrun", missing), program("off", "Disabled", "disabled"),
                           program("empty", GTEST_NOTHING), program("part", GTEST_DISABLED))
        self.assertEqual(report.passed_cases, 2)
        self.assertEqual(report.skips, [("gone: the whole program", "Unable to find executable"),
                                        ("off: the whole program", "disabled"),
                                        ("empty: the whole program", "it ran no case"),
                                        ("part: a case", "its name begins with DISABLED_")])


class AllowedSkips(unittest.TestCase):
    def test_only_listed_reasons_pass(self):
        patterns = ctest_report.allowed_patterns(TOOLS / "allowed_skips")
        reasons = ["this CPU has no AVX-512", "KVANT_TEXTS is not set", "no reason given", ""]
        skips = [ctest_report.Skip(f"t: {reason}", reason) for reason in reasons]
        self.assertEqual([skip.reason for skip in ctest_report.refused(skips, patterns)], reasons[1:])
        self.assertEqual(len(ctest_report.refused(skips, patterns + [re.compile("KVANT_TEXTS")])), 2)


if __name__ == "__main__":
    unittest.main()
