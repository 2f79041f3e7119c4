"""tools/setup with stand-ins for dpkg-query, apt-get, id and sudo that record how they are called."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from scripts import TOOLS, write

RECORD = '#!/bin/sh\necho "$(basename "$0") $*" >> "$CALLS"\n'


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.bin = self.root / "bin"
        self.calls = write(self.root / "calls", "")
        self.stand_in("apt-get", RECORD + 'exit "${APT_EXIT:-0}"\n')
        self.stand_in("id", "#!/bin/sh\necho ${FAKE_UID:-0}\n")
        # All packages are installed but those that ABSENT names (one).
        self.stand_in("dpkg-query", '#!/bin/sh\nshift 3\nfor p in "$@"; do\n'
                                    '  [ "$p" = "$ABSENT" ] && bad=1 || echo "installed $p"\ndone\nexit ${bad:-0}\n')
        self.stand_in("sleep", RECORD)
        # Where the default text may be: here the second, the cache, is empty.
        self.cache = self.root / "cache"
        self.doc = self.root / "doc"
        self.text = write(self.doc / "jargon-text" / "jargon.txt.gz", "text of the package")
        for name in ("bash", "env", "sh", "basename"):
            os.symlink(f"/usr/bin/{name}", self.bin / name)

    def stand_in(self, name, text):
        write(self.bin / name, text, executable=True)

    def run_setup(self, *arguments, **variables):
        self.calls.write_text("")
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls), "ABSENT": "",
                       "KVANT_CACHE": str(self.cache), "KVANT_DOC_FOLDER": str(self.doc), **variables}
        result = subprocess.run([TOOLS / "setup", *arguments], env=environment, capture_output=True, text=True)
        return result.returncode, result.stderr, self.calls.read_text().splitlines()

    def test_nothing_missing_calls_nothing(self):
        self.assertEqual(self.run_setup(), (0, "", []))

    def test_root_installs_only_what_is_missing(self):
        code, err, calls = self.run_setup(ABSENT="libhwy-dev")
        self.assertEqual(code, 0)
        self.assertEqual(len(calls), 2)
        self.assertTrue(calls[0].endswith("update -qq"), calls)
        self.assertTrue(calls[1].endswith("--no-install-recommends libhwy-dev"), calls)
        self.assertIn("DPkg::Lock::Timeout", calls[1])
        self.assertIn("libhwy-dev", err)

    def test_sets(self):
        self.assertEqual(self.run_setup("build", ABSENT="clang-tidy-14")[2], [])
        self.assertEqual(len(self.run_setup("build", "test", ABSENT="clang-tidy-14")[2]), 2)
        self.assertEqual(self.run_setup("demo", ABSENT="g++")[2], [])
        code, err, calls = self.run_setup("tests")
        self.assertEqual((code, calls), (2, []))
        self.assertIn('"tests" is not a set', err)

    def test_list_installs_nothing(self):
        self.assertEqual(self.run_setup("--list", ABSENT="g++"), (0, "", []))

    def test_without_root_it_uses_sudo_and_says_so(self):
        self.stand_in("sudo", RECORD + 'exec "$@"\n')
        code, err, calls = self.run_setup(ABSENT="cmake", FAKE_UID="1000")
        self.assertEqual(code, 0)
        self.assertIn("using sudo", err)
        self.assertEqual([call.split()[0] for call in calls], ["sudo", "apt-get", "sudo", "apt-get"])

    def test_without_root_and_sudo_it_says_what_to_do(self):
        code, err, calls = self.run_setup(ABSENT="cmake", FAKE_UID="1000")
        self.assertEqual((code, calls), (1, []))
        self.assertIn("run as root: apt-get install cmake", err)

    def test_without_apt_it_names_the_packages(self):
        (self.bin / "apt-get").unlink()
        code, err, _ = self.run_setup(ABSENT="cmake")
        self.assertEqual(code, 1)
        self.assertIn("libhwy-dev", err)

    def test_a_locked_list_is_tried_again_and_a_failed_install_is_an_error(self):
        code, err, calls = self.run_setup(ABSENT="cmake", APT_EXIT="100")
        self.assertEqual(code, 1)
        self.assertEqual(sum(call.endswith("update -qq") for call in calls), 6)
        self.assertIn("could not install: cmake", err)

    def without_documentation(self):
        """A system whose dpkg leaves out /usr/share/doc; the package can be downloaded. Returns where the text goes."""
        self.text.unlink()
        self.stand_in("apt-get", RECORD + 'case "$*" in *download*) [ "${APT_EXIT:-0}" = 0 ] || exit 100\n'
                                          'echo archive > jargon-text_4.4.7-3.1_all.deb ;; esac\n')
        self.stand_in("dpkg-deb", RECORD + '[ "$(cat "$2")" = archive ] || exit 2\n'
                                           'mkdir -p "$3/usr/share/doc/jargon-text"\n'
                                           'echo unpacked > "$3/usr/share/doc/jargon-text/jargon.txt.gz"\n')
        for name in ("cat", "mkdir", "mktemp", "mv", "rm"):
            os.symlink(f"/usr/bin/{name}", self.bin / name)
        return self.cache / "texts" / "jargon.txt.gz"

    def test_a_text_that_dpkg_left_out_is_taken_from_the_package(self):
        text = self.without_documentation()
        code, err, calls = self.run_setup("demo", FAKE_UID="1000")  # needs no root
        self.assertEqual(code, 0, err)
        self.assertEqual([call.split()[0] for call in calls], ["apt-get", "dpkg-deb"])
        self.assertTrue(calls[0].endswith("download jargon-text"), calls)
        self.assertEqual(text.read_text(), "unpacked\n")
        self.assertEqual(os.listdir(text.parent), [text.name])
        self.assertEqual(self.run_setup("demo"), (0, "", []))

    def test_packages_come_first_and_may_bring_the_text(self):
        text = self.without_documentation()
        code, err, calls = self.run_setup(ABSENT="jargon-text")
        self.assertEqual(code, 0, err)
        self.assertEqual([call.split()[-1] for call in calls[:3]], ["-qq", "jargon-text", "jargon-text"])
        self.assertIn(" download ", calls[2])
        text.unlink()
        self.stand_in("apt-get", RECORD + f'echo text > "{self.text}"\n')
        code, err, calls = self.run_setup(ABSENT="jargon-text")
        self.assertEqual((code, len(calls)), (0, 2), err)
        self.assertFalse(text.exists())

    def test_other_sets_and_a_text_of_the_users_need_no_package(self):
        self.without_documentation()
        self.assertEqual(self.run_setup("build", "test"), (0, "", []))
        texts = write(self.root / "texts" / "jargon.txt.gz", "the user's").parent
        self.assertEqual(self.run_setup("demo", KVANT_TEXTS=str(texts)), (0, "", []))

    def test_a_failed_download_says_what_to_do_and_leaves_nothing(self):
        text = self.without_documentation()
        code, err, _ = self.run_setup("demo", APT_EXIT="100")
        self.assertEqual(code, 1)
        self.assertIn(f"into {text.parent} by hand", err)
        self.assertEqual(os.listdir(text.parent), [])

    def test_missing_package_lists_are_fetched_for_the_text(self):
        text = self.without_documentation()
        self.stand_in("apt-get", RECORD + 'case "$*" in *update*) : > "$LISTS" ;;\n'
                                          '*download*) [ -e "$LISTS" ] || exit 100\n'
                                          'echo archive > jargon-text_4.4.7-3.1_all.deb ;; esac\n')
        code, err, calls = self.run_setup("demo", LISTS=str(self.root / "lists"))
        self.assertEqual(code, 0, err)
        self.assertEqual([call.split()[0] for call in calls], ["apt-get", "apt-get", "apt-get", "dpkg-deb"])
        self.assertEqual(text.read_text(), "unpacked\n")


if __name__ == "__main__":
    unittest.main()
