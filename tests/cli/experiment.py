"""A small experiment as its file, and what `kvant run` leaves behind."""

import csv
import io

from program import Case

ARMS = {"k8": "k=q8_0 v=f32", "k2": "k=affine2/g32 v=f32", "v2": "k=f32 v=affine2/g32"}
# What may differ between two runs that measure the same: the clock, and how many threads it took.
TIMES = {"seconds", "tokens_per_second", "date_utc", "threads"}


def toml(model="model.gguf", text="text.txt", arms=None, bars=None, spans="{ends = [400, 500], length = 48}",
         contexts="[64, 128]", floor=8, smoke="{end = 96, length = 16, context = 32}", **keys):
    lines = ['name = "small"', 'question = "Which hurts more?"', f'model = "{model}"', f'text = "{text}"',
             f"contexts = {contexts}", f"spans = {spans}"]
    lines += [f"{key} = {value}" for key, value in keys.items()]
    if smoke:
        lines.append(f"smoke = {smoke}")
    for name, policy in (ARMS if arms is None else arms).items():
        lines += ["[[arm]]", f'name = "{name}"', f'policy = "{policy}"']
    for name, claim in (bars or {}).items():
        lines += ["[[bar]]", f'name = "{name}"', f'claim = "{claim}"']
    if floor:
        lines += ["[floor]", f"second_chunk = {floor}"]
    return "\n".join(lines) + "\n"


class RunCase(Case):
    """Every test has a folder of results of its own."""

    def setUp(self):
        self.out = self.folder / "out" / self.id().split(".")[-1]

    def spec(self, text, name="small.toml"):
        return self.put(name, text.encode())

    def run_spec(self, text, *arguments, code=0, **options):
        got, out, err = self.kvant("run", self.spec(text), "-o", self.out, *arguments, **options)
        self.assertEqual(got, code, err + out)
        return out

    def rows(self, name="results.csv"):
        text = (self.out / name).read_bytes().decode()
        return list(csv.DictReader(io.StringIO(text, newline="")))

    def numbers(self):
        """The rows without times, in an order of their own."""
        rows = [{key: value for key, value in row.items() if key not in TIMES} for row in self.rows()]
        return sorted(rows, key=lambda row: (row["policy"], row["chunk_tokens"], row["context_tokens"],
                                             row["span_end_tokens"]))


