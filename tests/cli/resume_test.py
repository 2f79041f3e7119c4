"""kvant run that is stopped: by kill -9 at any moment, and by Ctrl-C."""

import contextlib
import signal
import sqlite3
import subprocess
import time
import unittest

from experiment import RunCase, toml
from program import PROGRAM, SECONDS
from tiny_model import Random

# Long enough to be hit in the middle: some hundred cells.
LONG = {"spans": "{ends = [" + ", ".join(str(end) for end in range(700, 1300, 30)) + "], length = 32}",
        "contexts": "[64, 512]", "chunk": 64}


class Stopped(RunCase):
    def begin(self, text):
        return self.start("run", self.spec(text), "-o", self.out, "--threads", "1")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        begin = time.monotonic()
        process = subprocess.run([PROGRAM, "run", cls.put("whole.toml", toml(**LONG).encode()), "-o",
                                  str(cls.folder / "whole"), "--threads", "1"], env=cls.environment, cwd=cls.folder,
                                 capture_output=True, check=False, timeout=SECONDS)
        cls.seconds = time.monotonic() - begin
        cls.whole_code = process.returncode

    def whole(self):
        out, self.out = self.out, self.folder / "whole"
        numbers, self.out = self.numbers(), out
        return numbers

    def test_kill_at_random_moments(self):
        self.assertEqual(self.whole_code, 0)
        random = Random(time.time_ns())
        killed = 0
        for _ in range(6):
            process = self.begin(toml(**LONG))
            time.sleep(self.seconds * random.below(1000) / 1000 / 3)
            process.kill()
            process.communicate()
            killed += process.returncode == -signal.SIGKILL
        self.assertGreater(killed, 0)
        self.run_spec(toml(**LONG), "--threads", "1")
        self.assertEqual(self.numbers(), self.whole())

    def wait_for_cells(self, wanted):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(sqlite3.Error):  # not there yet, or just being written
                database = sqlite3.connect(f"file:{self.out}/results.db?mode=ro", uri=True)
                with contextlib.closing(database):
                    if database.execute("SELECT COUNT(*) FROM cells").fetchone()[0] >= wanted:
                        return
            time.sleep(0.01)
        self.fail(f"{wanted} cells are not stored after {SECONDS} seconds")

    def stop(self, number):
        process = self.begin(toml(**LONG))
        self.wait_for_cells(10)
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 130, err)
        out = out.decode()
        self.assertIn("Stopped", out)
        self.assertIn(f"{self.out}/results.csv", out)
        kept = self.numbers()
        self.assertGreater(len(kept), 0)
        self.assertLess(len(kept), len(self.whole()))
        for row in kept:
            self.assertIn(row, self.whole())
        out = self.run_spec(toml(**LONG), "--threads", "1")
        self.assertIn(f"{len(kept)} of {len(self.whole())} cells were there already", out)
        self.assertEqual(self.numbers(), self.whole())

    def test_ctrl_c(self):
        self.stop(signal.SIGINT)

    def test_terminate(self):
        self.stop(signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
