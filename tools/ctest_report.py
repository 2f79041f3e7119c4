"""Reads what ctest wrote (--output-junit) and finds what ctest itself does not show: the single cases inside each test
program, and above all those that were skipped there, with their reasons.

A gtest program whose every case is skipped exits 0 and counts as passed for ctest; so does a Python unittest. A set
of tests that silently stops testing looks like a green one, so skips are counted and, in CI, refused unless their
reason is in tools/allowed_skips.
"""

import re
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple


class Skip(NamedTuple):
    case: str  # "codec_test: Codec.UsesAvx512"
    reason: str


class Report(NamedTuple):
    programs: int  # ctest's tests
    cases: int  # what they ran inside; a program without a known runner is one case
    failed: list  # names of failed programs
    failed_cases: int
    skips: list

    @property
    def passed_cases(self):
        return self.cases - self.failed_cases - len(self.skips)


NO_REASON = "no reason given"

GTEST_TOTAL = re.compile(r"^\[==========\] (\d+) tests? from \d+ test suites? ran\.", re.MULTILINE)
GTEST_SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) tests?, listed below:", re.MULTILINE)
GTEST_FAILED = re.compile(r"^\[  FAILED  \] (\d+) tests?, listed below:", re.MULTILINE)
GTEST_DISABLED = re.compile(r"^  YOU HAVE (\d+) DISABLED TESTS?", re.MULTILINE)
UNITTEST_TOTAL = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
UNITTEST_SKIP = re.compile(r"^(\S+) \([^)]*\).*\.\.\. skipped ['\"](.*)['\"]$", re.MULTILINE)
UNITTEST_ENDING = re.compile(r"^(?:OK|FAILED) \((.*)\)$", re.MULTILINE)


def gtest_skips(output):
    """(case, reason) of each skipped gtest case; GTEST_SKIP prints "file:line: Skipped" and the reason after it."""
    skips, case, lines = [], None, []
    for line in output.splitlines():
        if line.startswith("[ RUN      ] "):
            case, lines = line[len("[ RUN      ] "):].strip(), []
        elif line.startswith(("[       OK ] ", "[  FAILED  ] ")):
            case = None
        elif line.startswith("[  SKIPPED ] ") and case is not None:
            text = "\n".join(lines)
            reason = text.split(": Skipped\n", 1)[1] if ": Skipped\n" in text else ""
            skips.append((case, " ".join(reason.split()) or NO_REASON))
            case = None
        elif case is not None:
            lines.append(line)
    counted = GTEST_SKIPPED.search(output)
    missing = (int(counted.group(1)) if counted else 0) - len(skips)
    return skips + [("a case", NO_REASON)] * missing


def unittest_number(output, word):
    ending = UNITTEST_ENDING.search(output)
    parts = dict(part.split("=") for part in ending.group(1).split(", ")) if ending else {}
    return int(parts.get(word, 0))


def read_case(testcase):
    """(cases, failed cases, [(case, reason)]) of one <testcase>, which is one test program."""
    output = testcase.findtext("system-out") or ""
    status = testcase.get("status")
    if status in ("notrun", "disabled"):
        skipped = testcase.find("skipped")
        reason = (skipped.get("message") if skipped is not None else None) or status
        return 1, 0, [("the whole program", reason)]
    if gtest := GTEST_TOTAL.search(output):
        cases, skips = int(gtest.group(1)), gtest_skips(output)
        counted = GTEST_FAILED.search(output)
        failed = int(counted.group(1)) if counted else 0
        disabled = GTEST_DISABLED.search(output)
        skips += [("a case", "its name begins with DISABLED_")] * (int(disabled.group(1)) if disabled else 0)
        cases += int(disabled.group(1)) if disabled else 0
    elif python := UNITTEST_TOTAL.search(output):
        cases, skips = int(python.group(1)), UNITTEST_SKIP.findall(output)
        skips += [("a case", NO_REASON)] * (unittest_number(output, "skipped") - len(skips))
        failed = unittest_number(output, "failures") + unittest_number(output, "errors")
    else:
        # No closing line: another kind of program, or one that crashed in the middle.
        cases, skips, failed = 1, [], 0
    if cases == 0:
        cases, skips = 1, [("the whole program", "it ran no case")]
    if status == "fail" and failed == 0:
        cases, failed = max(cases, len(skips) + 1), 1
    return cases, failed, skips


def read(path):
    """The Report of a JUnit file of ctest. OSError or ParseError when ctest left none."""
    programs, cases, failed_cases, failed, skips = 0, 0, 0, [], []
    for testcase in ElementTree.parse(path).getroot().iter("testcase"):
        name = testcase.get("name")
        its_cases, its_failed, its_skips = read_case(testcase)
        programs += 1
        cases += its_cases
        failed_cases += its_failed
        if its_failed:
            failed.append(name)
        skips += [Skip(f"{name}: {case}", reason) for case, reason in its_skips]
    return Report(programs, cases, failed, failed_cases, skips)


def allowed_patterns(path):
    """The regular expressions of tools/allowed_skips: one a line, '#' begins a comment line."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return [re.compile(line) for line in lines if line and not line.startswith("#")]


def refused(skips, patterns):
    return [skip for skip in skips if not any(pattern.search(skip.reason) for pattern in patterns)]
