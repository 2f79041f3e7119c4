"""A tiny Llama in GGUF, the same bytes every time, so that tests of the program need no download.

Two layers, hidden 64, four query heads on two KV heads, F32 weights, and a byte-level vocabulary: the 256 bytes in
GPT-2's alphabet, some merges, three control tokens. The weights are random: its text means nothing, its arithmetic is
real.
"""

import math
import struct
from array import array

LAYERS, HIDDEN, FFN, Q_HEADS, KV_HEADS = 2, 64, 96, 4, 2
CONTEXT_LENGTH = 4096
MERGES = ["t h", "th e", "Ġ a", "Ġ the", "i n", "e r", "a n", "o n", "r e", "Ġ s", "e s", "in g", "Ġ w", "Ġ o", "e n",
          "o r", "Ġ c", "a t", "n d", "a nd"]
CONTROL = ["<|bos|>", "<|eos|>", "<|pad|>"]
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9  # GGUF's value types
ALIGNMENT = 32


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        return mixed ^ (mixed >> 31)

    def below(self, limit):
        return self.next() % limit

    def uniform(self, bound):
        return (self.next() / 2.0**63 - 1.0) * bound


def alphabet():
    """GPT-2's character for each byte: printable ones stand for themselves, the others are moved to U+0100 and up."""
    printable = set(range(0x21, 0x7F)) | set(range(0xA1, 0xAD)) | set(range(0xAE, 0x100))
    table, moved = {}, 0
    for byte in range(256):
        if byte in printable:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + moved)
            moved += 1
    return table


def vocabulary():
    table = alphabet()
    return [table[byte] for byte in range(256)] + [merge.replace(" ", "") for merge in MERGES] + CONTROL


def expected_ids(text):
    """Token ids of words of a-z that single spaces part, by the definition of BPE: the best merge first."""
    ids = {token: index for index, token in enumerate(vocabulary())}
    ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(MERGES)}
    out = []
    for index, word in enumerate(text.split(" ")):
        parts = list(word if index == 0 else "Ġ" + word)
        while True:
            pairs = [(ranks[pair], at) for at, pair in enumerate(zip(parts, parts[1:])) if pair in ranks]
            if not pairs:
                break
            at = min(pairs)[1]
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        out += [ids[part] for part in parts]
    return out


def words(count, seed=1):
    """`count` random words of a-z with single spaces between: some whole English ones, so that merges occur."""
    random = Random(seed)
    known = ["the", "and", "when", "there", "string", "other", "sand", "on", "winter", "cat"]
    out = []
    for _ in range(count):
        if random.below(2) == 0:
            out.append(known[random.below(len(known))])
        else:
            out.append("".join(chr(97 + random.below(26)) for _ in range(1 + random.below(6))))
    return " ".join(out)


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _array(kind, items):
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)


def _metadata(head_dim, add_bos):
    tokens = vocabulary()
    types = [1] * (len(tokens) - len(CONTROL)) + [3] * len(CONTROL)
    bos = len(tokens) - len(CONTROL)
    u32 = lambda value: (U32, struct.pack("<I", value))  # noqa: E731
    f32 = lambda value: (F32, struct.pack("<f", value))  # noqa: E731
    text = lambda value: (STRING, _string(value))  # noqa: E731
    return {
        "general.architecture": text("llama"),
        "general.name": text("tiny"),
        "llama.block_count": u32(LAYERS),
        "llama.context_length": u32(CONTEXT_LENGTH),
        "llama.embedding_length": u32(HIDDEN),
        "llama.feed_forward_length": u32(FFN),
        "llama.attention.head_count": u32(Q_HEADS),
        "llama.attention.head_count_kv": u32(KV_HEADS),
        "llama.attention.key_length": u32(head_dim),
        "llama.attention.value_length": u32(head_dim),
        "llama.rope.dimension_count": u32(head_dim),
        "llama.rope.freq_base": f32(10000.0),
        "llama.attention.layer_norm_rms_epsilon": f32(1e-5),
        "tokenizer.ggml.model": text("gpt2"),
        "tokenizer.ggml.pre": text("gpt-2"),
        "tokenizer.ggml.tokens": (ARRAY, _array(STRING, [_string(token) for token in tokens])),
        "tokenizer.ggml.token_type": (ARRAY, _array(I32, [struct.pack("<i", kind) for kind in types])),
        "tokenizer.ggml.merges": (ARRAY, _array(STRING, [_string(merge) for merge in MERGES])),
        "tokenizer.ggml.bos_token_id": u32(bos),
        "tokenizer.ggml.eos_token_id": u32(bos + 1),
        "tokenizer.ggml.add_bos_token": (BOOL, struct.pack("<?", add_bos)),
    }


def _shapes(head_dim, tied):
    """Name to (rows, columns); 0 rows mark a vector. GGUF writes the columns first."""
    shapes = {"token_embd.weight": (len(vocabulary()), HIDDEN), "output_norm.weight": (0, HIDDEN)}
    if not tied:
        shapes["output.weight"] = (len(vocabulary()), HIDDEN)
    for layer in range(LAYERS):
        prefix = f"blk.{layer}."
        shapes |= {
            prefix + "attn_norm.weight": (0, HIDDEN),
            prefix + "attn_q.weight": (Q_HEADS * head_dim, HIDDEN),
            prefix + "attn_k.weight": (KV_HEADS * head_dim, HIDDEN),
            prefix + "attn_v.weight": (KV_HEADS * head_dim, HIDDEN),
            prefix + "attn_output.weight": (HIDDEN, Q_HEADS * head_dim),
            prefix + "ffn_norm.weight": (0, HIDDEN),
            prefix + "ffn_gate.weight": (FFN, HIDDEN),
            prefix + "ffn_up.weight": (FFN, HIDDEN),
            prefix + "ffn_down.weight": (HIDDEN, FFN),
        }
    return shapes


def _values(rows, columns, random):
    if rows == 0:  # a norm
        return array("f", (1 + random.uniform(0.2) for _ in range(columns)))
    bound = 2 * math.sqrt(3 / columns)  # twice the size that keeps variances: attention is then far from uniform
    return array("f", (random.uniform(bound) for _ in range(rows * columns)))


def _padded(data):
    return data + b"\0" * (-len(data) % ALIGNMENT)


def tiny_model(head_dim=32, add_bos=False, tied=True, seed=1, broken=False):
    """The bytes of the file. A broken one has a NaN in its last norm."""
    random = Random(seed)
    infos, blob = b"", b""
    shapes = _shapes(head_dim, tied)
    for name, (rows, columns) in shapes.items():
        dims = [columns] if rows == 0 else [columns, rows]
        infos += _string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, len(blob))
        values = _values(rows, columns, random)
        if broken and name == "output_norm.weight":
            values[3] = math.nan
        blob += _padded(values.tobytes())
    metadata = _metadata(head_dim, add_bos)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata))
    for key, (kind, value) in metadata.items():
        head += _string(key) + struct.pack("<I", kind) + value
    return _padded(head + infos) + blob
