"""kvant tokenize: ids as text and as raw integers."""

import struct
import unittest

from program import Case
from tiny_model import CONTROL, expected_ids, vocabulary, words


class Tokenize(Case):
    def ids(self, data, *arguments):
        out = self.succeed("tokenize", "-m", self.model, "-f", self.put("case.txt", data), *arguments)
        return [int(line) for line in out.splitlines()]

    def test_ids_of_words(self):
        text = words(400)
        ids = expected_ids(text)
        self.assertLess(len(ids), len(text))  # merges took part
        self.assertEqual(self.ids(text.encode()), ids)

    def test_bytes_without_merges(self):
        data = "\u00e9\n\t~\U0001f600".encode()
        self.assertEqual(self.ids(data), list(data))

    def test_u32_is_the_same_ids_little_endian(self):
        text = words(100) + " " + "the" * 3
        path = self.put("case.txt", text.encode())
        process = self.start("tokenize", "-m", self.model, "-f", path, "--u32")
        raw, err = process.communicate()
        self.assertEqual((process.returncode, err), (0, b""))
        ids = self.ids(text.encode())
        self.assertEqual(raw, struct.pack(f"<{len(ids)}I", *ids))
        self.assertGreater(max(ids), 255)  # so that the byte order shows

    def test_special_tokens_are_text_unless_asked_for(self):
        text = CONTROL[0].encode()
        self.assertEqual(self.ids(text), list(text))
        self.assertEqual(self.ids(text, "--special"), [len(vocabulary()) - len(CONTROL)])


if __name__ == "__main__":
    unittest.main()
