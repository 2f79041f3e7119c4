"""What `kvant run` says while it works: lines in a log, one rewritten line on a terminal."""

import fcntl
import os
import pty
import re
import struct
import termios
import time
import unittest

from experiment import RunCase, toml

# About ten seconds on two slow cores; the tests stop it as soon as they have seen enough.
LONG = {"spans": "{ends = [" + ", ".join(str(end) for end in range(4000, 5000, 5)) + "], length = 64}",
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
        self.assertLess(at[0], 3)  # soon, so that one sees that it works
        for earlier, later in zip(at, at[1:]):
            self.assertTrue(1 < later - earlier < 6, at)

    def on_terminal(self, columns, seconds=1.5):
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.begin(other)
        os.close(other)
        end = time.monotonic() + seconds
        data = b""
        while time.monotonic() < end:
            try:
                data += os.read(main, 4096)
            except OSError:
                break
        process.kill()
        os.close(main)
        return data.decode()

    def test_on_a_terminal(self):
        text = self.on_terminal(120)
        self.assertNotIn("\n", text)
        updates = [part for part in re.split(r"\r\x1b\[K", text) if part][:-1]  # the last may be cut off
        self.assertGreater(len(updates), 2)
        for update in updates:
            self.assertRegex(update, LINE)

    def test_on_a_narrow_terminal_it_stays_one_line(self):
        text = self.on_terminal(40)
        updates = [part for part in re.split(r"\r\x1b\[K", text) if part][:-1]
        self.assertGreater(len(updates), 2)
        for update in updates:
            self.assertLess(len(update), 40)


if __name__ == "__main__":
    unittest.main()
