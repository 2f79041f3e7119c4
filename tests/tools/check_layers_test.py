"""Each rule of tools/check_layers against a small tree that breaks it, and a twin that does not."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from scripts import load, write

check_layers = load("check_layers")

# (file, its text, words that the violation must contain; None when the file is right)
CASES = [
    ("src/kvant/attn/state.cc", '#include "kvant/codec/codec.h"\n', None),
    ("src/kvant/codec/codec.cc", '#include "kvant/codec/codec.h"\n', None),
    ("apps/kvant/run.cc", '#include <CLI/CLI.hpp>\n#include "verbs.h"\n#include "kvant/experiment/run.h"\n'
     "int main() { std::printf(getenv(\"HOME\")); exit(0); }\n", None),
    # Numbers of layers.
    ("src/kvant/base/x.cc", '\n#include "kvant/codec/codec.h"\n', "x.cc:2: base (layer 0) includes"),
    ("src/kvant/cache/x.h", '#include "kvant/model/model.h"\n', "a lower layer never includes a higher one"),
    ("src/kvant/codec/x_test.cc", '  #  include "kvant/cache/view.h"\n', "a lower layer never includes a higher one"),
    ("src/kvant/codec/x.cc", '#include "kvant/io/gguf.h"\n', "equals never include each other"),
    ("src/kvant/attn/x.cc", '#include "kvant/report/csv.h"\n', "equals never include each other"),
    ("src/kvant/model/tokenizer/bpe.cc", '#include "kvant/eval/spans.h"\n', "model (layer 5)"),
    ("src/kvant/model/tokenizer/bpe.cc", '#include "kvant/io/gguf.h"\n', None),
    ("src/kvant/model/x.cc", '#include "kvant/nowhere/y.h"\n', "nowhere"),
    ("src/kvant/nowhere/x.cc", "\n", "folder nowhere is not a layer"),
    # Bans that the numbers do not give.
    ("src/kvant/cache/x.cc", '#include "kvant/io/gguf.h"\n', "the cache knows no files"),
    ("src/kvant/metrics/x.cc", '#include "kvant/tensor/view.h"\n', "pure functions"),
    ("src/kvant/metrics/x.cc", '#include "kvant/base/result.h"\n', None),
    ("src/kvant/attn/x.cc", '#include "kvant/cache/view.h"\n', None),
    ("src/kvant/attn/x.cc", '#include "kvant/cache/policy.h"\n', "of the cache it sees kvant/cache/view.h only"),
    ("src/kvant/cache/view.h", '#include "kvant/cache/policy.h"\n', "the seam includes nothing else of the cache"),
    ("src/kvant/cache/view.h", '#include "kvant/codec/codec.h"\n', None),
    # Libraries.
    ("src/kvant/codec/x.h", "#include <hwy/highway.h>\n", "a header exposes Highway"),
    ("src/kvant/codec/x-inl.h", "#include <hwy/highway.h>\n", None),
    ("src/kvant/codec/x.h", '#include "kvant/codec/x-inl.h"\n', "-inl.h files belong to"),
    ("src/kvant/codec/x.cc", '#include "hwy/highway.h"\n', None),
    ("src/kvant/results/x.cc", '#include "hwy/highway.h"\n', "results includes Highway"),
    ("src/kvant/model/x.h", "#include <oneapi/dnnl/dnnl.h>\n", "a header exposes oneDNN"),
    ("src/kvant/model/x.h", "#include <fmt/format.h>\n", "a header exposes fmt"),
    ("src/kvant/base/result.h", "#include <fmt/format.h>\n#include <tl/expected.hpp>\n", None),
    ("src/kvant/eval/x.cc", "#include <toml++/toml.h>\n", "eval includes toml++"),
    ("src/kvant/experiment/x.cc", "#include <CLI/CLI.hpp>\n", "experiment includes CLI11"),
    ("src/kvant/base/x.cc", "#include <gtest/gtest.h>\n", "GoogleTest is for"),
    ("src/kvant/base/x_test.cc", "#include <gtest/gtest.h>\n", None),
    ("src/kvant/codec/x.cc", '#include "codec.h"\n', "not included from the root"),
    ("src/kvant/io/gguf_test_builder.h", "#include <gtest/gtest.h>\n", None),
    ("src/kvant/io/gguf_test.cc", '#include "kvant/io/gguf_test_builder.h"\n', None),
    ("src/kvant/io/gguf.cc", '#include "kvant/io/gguf_test_builder.h"\n', "is for tests, and this is none"),
    ("src/kvant/io/contest.cc", "#include <gtest/gtest.h>\n", "GoogleTest is for"),
    ("src/kvant/results/toml_internal.h", "#include <toml++/toml.h>\n", None),
    ("src/kvant/results/spec.cc", '#include "kvant/results/toml_internal.h"\n', None),
    ("src/kvant/results/spec.h", '#include "kvant/results/toml_internal.h"\n',
     "is for the .cc files of its own folder"),
    ("src/kvant/report/x.cc", '#include "kvant/results/toml_internal.h"\n', "is for the .cc files of its own folder"),
    # What only the programs do.
    ("src/kvant/eval/x.cc", 'void F() {\n  std::printf("x");\n}\n', "x.cc:2: std::printf: the library never prints"),
    ("src/kvant/eval/x.cc", 'void F() { std::cerr << "x"; }\n', "never prints"),
    ("src/kvant/eval/x.cc", 'void F() { fprintf(stderr, "x"); }\n', "never prints"),
    ("src/kvant/eval/x.cc", 'void F() { std::snprintf(a, 3, "x"); fprintf(file, "x"); }\n', None),
    ("src/kvant/eval/x.cc", 'auto home = std::getenv("HOME");\n', "never reads the environment"),
    ("src/kvant/eval/x.cc", "void F() { std::exit(1); }\n", "never ends the program"),
    ("src/kvant/eval/x.cc", "void F() { abort(); }\n", "never ends the program"),
    ("src/kvant/base/check.cc", "void F() { std::fprintf(stderr, text); std::abort(); }\n", None),
    ("src/kvant/eval/x.cc", "void F() { throw 1; }\n", "never throws"),
    ("src/kvant/eval/x.cc", "void F() { loop.exit(); on_exit(); }\n", None),
    ("src/kvant/eval/x_test.cc", 'auto texts = std::getenv("KVANT_TEXTS");\n', None),
    # Comments and strings are no code.
    ("src/kvant/eval/x.cc", '// printf("x"), throw\n/* exit(1)\n   getenv */ auto s = "abort() throw";\n', None),
    ("src/kvant/eval/x.cc", '/*\n#include "kvant/experiment/run.h"\n*/\n', None),
    ("src/kvant/eval/x.cc", 'auto s = R"(\n#include "kvant/experiment/run.h"\n)";\n', None),
    ("src/kvant/eval/x.cc", "int n = 1'000;\nvoid F() { exit(n); } // it's\n", "x.cc:2: exit"),
]


def check(root):
    """(what it prints, its exit code)"""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        return_code = check_layers.main(["--root", str(root)])
    return out.getvalue(), return_code


class CheckLayers(unittest.TestCase):
    def test_each_rule(self):
        for name, text, words in CASES:
            with self.subTest(name=name, text=text), tempfile.TemporaryDirectory() as root:
                write(Path(root, name), text)
                out, code = check(root)
                if words is None:
                    self.assertEqual((out, code), ("", 0))
                else:
                    self.assertIn(words, out)
                    self.assertTrue(out.startswith(f"{name}:"), out)
                    self.assertEqual(len(out.splitlines()), 1, out)
                    self.assertEqual(code, 1)

    def test_every_violation_is_named(self):
        with tempfile.TemporaryDirectory() as root:
            write(Path(root, "src/kvant/base/a.cc"), '#include "kvant/io/a.h"\n#include "kvant/eval/a.h"\n')
            write(Path(root, "src/kvant/io/b.h"), "#include <fmt/format.h>\n")
            out, _ = check(root)
            self.assertEqual([line.split(": ")[0] for line in out.splitlines()],
                             ["src/kvant/base/a.cc:1", "src/kvant/base/a.cc:2", "src/kvant/io/b.h:1"])

    def test_an_empty_tree_is_no_pass(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(check(root)[1], 2)


if __name__ == "__main__":
    unittest.main()
