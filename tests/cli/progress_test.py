"""What `kvant run` says while it works: lines in a log, one rewritten line on a terminal."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
import time
import unittest

from experiment import RunCase, toml

# Far longer than the tests look at it: they stop it as soon as they have seen enough.
LONG = {"spans": "{ends = [" + ", ".join(str(end) for end in range(2200, 6200, 10)) + "], length = 64}",
        "contexts": "[2048]", "chunk": 128}
LINE = re.compile(r"cell \d+/\d+  \d+ tokens/s  \d+:\d\d left  \S.*")


class Progress(RunCase):
    text_words = 2000

    def begin(self, stderr):
        process = self.start("run", self.spec(toml(**LONG)), "-o", self.out, "--threads", "1", stderr=stderr)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_in_a_log(self):
        read_end, write_end = os.pipe()
        process = self.begin(write_end)
        os.close(write_end)
        begin = time.monotonic()
        lines, at = [], []
        with os.fdopen(read_end) as log:
            while len(lines) < 3:
                line = log.readline()
                self.assertNotEqual(line, "", f"ended after {lines}")
                lines.append(line.rstrip("\n"))
                at.append(time.monotonic() - begin)
            process.kill()
        for line in lines:
            self.assertRegex(line, LINE)
            self.assertNotIn("\x1b", line)
        # The first line comes soon, the others every four seconds; a busy machine may take longer.
        self.assertLess(at[0], 10)
        for earlier, later in zip(at, at[1:]):
            self.assertTrue(1 < later - earlier < 15, at)

    def updates(self, columns):
        """The first lines that a terminal of this width gets to see, each written over the one before."""
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.begin(other)
        os.close(other)
        text = ""
        with contextlib.suppress(OSError):  # the program has ended
            while text.count("\r") < 5:
                text += os.read(main, 4096).decode()
        process.kill()
        os.close(main)
        self.assertNotIn("\n", text)
        parts = text.split("\r\x1b[K")
        self.assertEqual(parts[0], "")
        self.assertGreater(len(parts), 4)
        return parts[1:-1]  # the last may be cut off

    def test_on_a_terminal(self):
        for update in self.updates(columns=120):
            self.assertRegex(update, LINE)

    def test_on_a_narrow_terminal_it_stays_one_line(self):
        for update in self.updates(columns=40):
            self.assertLess(len(update), 40)
            self.assertRegex(update, r"cell \d+/\d+  ")


if __name__ == "__main__":
    unittest.main()
