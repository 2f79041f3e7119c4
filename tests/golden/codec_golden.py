#!/usr/bin/env python3
"""Writes tests/golden/codec/*.txt and fills the examples in docs/format/*.md.

A second implementation of the formats, from the pages in docs/format/ and in numpy f32 arithmetic; it shares nothing with
the C++ code. Needs numpy. With --gguf it also checks the ggml types against the PyPI package gguf and writes nothing.
"""
import pathlib
import re
import sys
import warnings

import numpy as np

F = np.float32
ROOT = pathlib.Path(__file__).resolve().parents[2]
HALF_MAX = F(65504)
BF16_MAX = np.array([0x7F7F0000], np.uint32).view(F)[0]
FLT_MAX = np.finfo(F).max
warnings.simplefilter("ignore", RuntimeWarning)


def half_bytes(*values):
    return np.array(values, np.float16).tobytes()


def pack(codes, bits):
    """Little-endian bit packing, value i at bits [i * bits, (i + 1) * bits)."""
    rows = (np.asarray(codes, np.uint32)[:, None] >> np.arange(bits, dtype=np.uint32)) & 1
    return np.packbits(rows.astype(np.uint8).ravel(), bitorder="little").tobytes()


def unpack(data, bits, count):
    rows = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[: bits * count].reshape(count, bits)
    return (rows.astype(np.uint32) << np.arange(bits, dtype=np.uint32)).sum(1)


def meta_half(x):
    """A half of our own formats: clamped, and a zero is +0. Returns (half, was it clamped)."""
    clamped = abs(x) > HALF_MAX
    half = np.float16(np.clip(F(x), -HALF_MAX, HALF_MAX))
    return (np.float16(0) if half == 0 else half), clamped


def outside(raw, a, b):
    low, high = min(a, b), max(a, b)
    return int(sum(1 for x in raw if np.isfinite(x) and (x < low or x > high)))


def groups_of(n, group):
    size = group if group > 0 else n
    return [(begin, min(begin + size, n)) for begin in range(0, n, size)]


def parse(codec):
    parts = codec.split("/")
    match = re.fullmatch(r"(affine|absmax)([1-8])", parts[0])
    if not match:
        return codec, 0, 0, False
    group = {"g32": 32, "g64": 64, "g128": 128, "head": -1, "vector": -1}[parts[1]]
    return match[1], int(match[2]), group, parts[2:] == ["sym"]


def signed_max(x):
    m = F(0)
    for value in x:
        if abs(value) > abs(m):
            m = value
    return m


def encode_affine(x, raw, bits, group):
    meta, codes, saturated = [], [], 0
    top = F(2**bits - 1)
    for begin, end in groups_of(len(x), group):
        part = x[begin:end]
        s, s_clamped = meta_half((part.max() - part.min()) / top)
        z, z_clamped = meta_half(part.min())
        meta.append(half_bytes(s, z))
        if s_clamped or z_clamped:
            saturated += outside(raw[begin:end], F(z), top * F(s) + F(z))
        if s == 0:
            codes += [0] * len(part)
        else:
            codes += list(np.clip(np.rint((part - F(z)) / F(s)), F(0), top).astype(int))
    return [*meta, pack(codes, bits)], saturated


def encode_absmax(x, raw, bits, group, symmetric):
    meta, codes, saturated = [], [], 0
    half = 2 ** (bits - 1)
    low = 1 - half if symmetric else -half
    for begin, end in groups_of(len(x), group):
        part = x[begin:end]
        m = signed_max(part)
        d, clamped = meta_half(abs(m) / F(half - 1) if symmetric else m / F(-half))
        meta.append(half_bytes(d))
        if clamped:
            saturated += outside(raw[begin:end], F(low) * F(d), F(half - 1) * F(d))
        if d == 0:
            codes += [half] * len(part)
        else:
            codes += list((np.clip(np.rint(part / F(d)), F(low), F(half - 1)) + half).astype(int))
    return [*meta, pack(codes, bits)], saturated


def ggml_half(x):
    half = np.float16(x)
    if np.isinf(half):
        return np.float16(np.copysign(HALF_MAX, x)), F(np.copysign(HALF_MAX, x)), True
    return half, F(x), False


def reciprocal(d):
    if d == 0:
        return F(0)
    inverse = F(1) / d
    return inverse if np.isfinite(inverse) else F(0)


def nibbles(q):
    return bytes(int((q[j] & 15) | ((q[j + 16] & 15) << 4)) for j in range(16))


def encode_ggml(kind, x, raw):
    fields, saturated = [], 0
    for begin in range(0, len(x), 32):
        part, part_raw = x[begin : begin + 32], raw[begin : begin + 32]
        if kind == "q8_0":
            d_half, d, clamped = ggml_half(abs(signed_max(part)) / F(127))
            if clamped:
                saturated += outside(part_raw, F(-127) * d, F(127) * d)
            level = np.clip(part * reciprocal(d), F(-127), F(127)).astype(np.float64)
            q = np.copysign(np.floor(np.abs(level) + 0.5), level).astype(np.int8)  # exact in double
            fields += [half_bytes(d_half), q.tobytes()]
            continue
        bits = int(kind[1])
        half, top = F(2 ** (bits - 1)), F(2**bits - 1)
        if kind.endswith("_0"):
            d_half, d, clamped = ggml_half(signed_max(part) / -half)
            if clamped:
                saturated += outside(part_raw, -half * d, (half - F(1)) * d)
            q = np.trunc(np.clip(part * reciprocal(d) + (half + F(0.5)), F(0), top)).astype(int)
            head = [half_bytes(d_half)]
        else:
            low, high = part[0], part[0]
            for value in part:
                low = value if value < low else low
                high = value if value > high else high
            d_half, d, d_clamped = ggml_half((high - low) / top)
            m_half, m, m_clamped = ggml_half(low)
            if d_clamped or m_clamped:
                saturated += outside(part_raw, m, top * d + m)
            q = np.trunc(np.clip((part - m) * reciprocal(d) + F(0.5), F(0), top)).astype(int)
            head = [half_bytes(d_half), half_bytes(m_half)]
        if bits == 5:
            head.append(pack(q >> 4, 1))
        fields += [*head, nibbles(q)]
    return fields, saturated


CENTROIDS = np.array(
    [-2.151945705, -1.343909279, -0.7560052813, -0.2450941789, 0.2450941789, 0.7560052813, 1.343909279, 2.151945705], F
)
THRESHOLDS = np.array([-1.747927491, -1.04995728, -0.5005497301, 0, 0.5005497301, 1.04995728, 1.747927491], F)


def dict3_scales():
    quarters = [-24 - 5 * (8 - k) for k in range(1, 8)] + [k - 32 for k in range(8, 57)] + [
        24 + 5 * (k - 56) for k in range(57, 64)
    ]
    return np.array([0.0] + [2.0 ** (q / 4) for q in quarters]).astype(F)


SCALES = dict3_scales()


def dict3_codes(x, s):
    return (x[:, None] >= (THRESHOLDS * s)[None, :]).sum(1)


def encode_dict3(x, raw):
    limit = CENTROIDS[7] * SCALES[63]
    indices, codes, saturated = [], [], outside(raw, -limit, limit)
    x = np.clip(x, -limit, limit)
    for begin, end in groups_of(len(x), 32):
        part = x[begin:end]
        errors = []
        for s in SCALES:
            e = np.zeros(32, F)
            difference = part - CENTROIDS[dict3_codes(part, s)] * s
            e[: len(part)] = difference * difference
            for width in (16, 8, 4, 2, 1):
                e = e[:width] + e[width : 2 * width]
            errors.append(e[0])
        best = int(np.argmin(errors))  # the first of equal ones
        indices.append(best)
        codes += [4] * len(part) if best == 0 else list(dict3_codes(part, SCALES[best]))
    return [pack(indices, 6), pack(codes, 3)], saturated


def encode(codec, values):
    """Returns (fields, (values, saturated, non_finite))."""
    raw = np.asarray(values, F)
    kind, bits, group, symmetric = parse(codec)
    limit = BF16_MAX if kind == "bf16" else HALF_MAX
    x = np.where(np.isnan(raw), F(0), np.where(np.isinf(raw), np.copysign(limit, raw), raw)).astype(F)
    if kind == "f32":
        fields, saturated = [raw.tobytes()], 0
    elif kind == "f16":
        fields, saturated = [np.clip(x, -limit, limit).astype(np.float16).tobytes()], outside(raw, -limit, limit)
    elif kind == "bf16":
        # Round half to even on the integer pattern.
        pattern = np.clip(x, -limit, limit).view(np.uint32).astype(np.uint64)
        rounded = ((pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16).astype(np.uint16)
        fields, saturated = [rounded.tobytes()], outside(raw, -limit, limit)
    elif kind == "affine":
        fields, saturated = encode_affine(x, raw, bits, group)
    elif kind == "absmax":
        fields, saturated = encode_absmax(x, raw, bits, group, symmetric)
    elif kind == "dict3":
        fields, saturated = encode_dict3(x, raw)
    else:
        fields, saturated = encode_ggml(kind, x, raw)
    if kind in ("affine", "absmax") and sum(map(len, fields)) % 2 == 1:
        fields.append(b"\0")
    return fields, (len(raw), saturated, int((~np.isfinite(raw)).sum()))


def decode(codec, data, n):
    kind, bits, group, _ = parse(codec)
    if kind == "f32":
        return np.frombuffer(data, F)
    if kind == "f16":
        return np.frombuffer(data, np.float16).astype(F)
    if kind == "bf16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(F)
    out = []
    if kind in ("affine", "absmax"):
        groups = groups_of(n, group)
        meta_count = 2 if kind == "affine" else 1
        meta = np.frombuffer(data[: 2 * meta_count * len(groups)], np.float16).astype(F).reshape(-1, meta_count)
        q = unpack(data[2 * meta_count * len(groups) :], bits, n)
        for (begin, end), row in zip(groups, meta):
            part = q[begin:end].astype(F)
            out.append(part * row[0] + row[1] if kind == "affine" else (part - F(2 ** (bits - 1))) * row[0])
        return np.concatenate(out)
    if kind == "dict3":
        count = (n + 31) // 32
        offset = (count * 6 + 7) // 8
        s = SCALES[unpack(data[:offset], 6, count)]
        return CENTROIDS[unpack(data[offset:], 3, n)] * np.repeat(s, 32)[:n]
    size = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34}[kind]
    for at in range(0, len(data), size):
        block = data[at : at + size]
        d, rest = np.frombuffer(block[:2], np.float16).astype(F)[0], block[2:]
        if kind == "q8_0":
            out.append(np.frombuffer(rest, np.int8).astype(F) * d)
            continue
        if kind.endswith("_1"):
            m, rest = np.frombuffer(rest[:2], np.float16).astype(F)[0], rest[2:]
        high = np.zeros(32, int)
        if kind[1] == "5":
            high, rest = unpack(rest[:4], 1, 32).astype(int) << 4, rest[4:]
        q = np.frombuffer(rest, np.uint8).astype(int)
        q = np.concatenate([q & 15, q >> 4]) | high
        if kind.endswith("_1"):
            out.append(q.astype(F) * d + m)
        else:
            out.append((q - (16 if kind[1] == "5" else 8)).astype(F) * d)
    return np.concatenate(out)


def hadamard(x):
    x = x.copy()
    half = 1
    while half < len(x):
        for i in range(len(x)):
            if not i & half:
                a, b = x[i], x[i + half]
                x[i], x[i + half] = a + b, a - b
        half *= 2
    return x * F(1 / np.sqrt(float(len(x))))


def transform(name, x):
    if name == "had":
        return hadamard(x)
    if name == "had64":
        return np.concatenate([hadamard(part) for part in x.reshape(-1, 64)])
    return x.reshape(2, -1).T.ravel()  # interleave


def text(values):
    return " ".join(str(F(value)) for value in values).replace(".0 ", " ").removesuffix(".0")


def rows(n):
    rng = np.random.default_rng(20260101)
    gaussian = rng.standard_normal(n).astype(F)
    ties = (rng.integers(-30, 31, n) * 0.5).astype(F)
    ties[:4] = [-15, 15, 15, -15]
    outlier = rng.standard_normal(n).astype(F)
    outlier[n // 2] = -900
    tiny = (rng.standard_normal(n) * 1e-7).astype(F)
    zeros = np.where(np.arange(n) % 3 == 1, F(-0.0), F(0))
    broken = rng.standard_normal(n).astype(F)
    broken[[1, 9, 33, 34, 39]] = [np.nan, np.inf, 1e5, -np.inf, -FLT_MAX]
    return {
        "gaussian": gaussian,
        "ties": ties,
        "outlier": outlier,
        "tiny": tiny,
        "zeros": zeros,
        "constant": np.full(n, F(-0.1)),
        "beyond half": (gaussian * F(1e6)).astype(F),
        "broken": broken,
    }


FILES = {
    "float": ["f32", "f16", "bf16"],
    "affine": [f"affine{b}/g32" for b in range(1, 9)] + ["affine3/g64", "affine5/g128", "affine4/head", "affine2/vector"],
    "absmax": [f"absmax{b}/g32" for b in range(1, 9)]
    + [f"absmax{b}/g32/sym" for b in range(2, 9)]
    + ["absmax3/g64", "absmax5/g128/sym", "absmax4/head"],
    **{kind: [kind] for kind in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "dict3")},
}


def write_golden():
    for name, codecs in FILES.items():
        lines = ["# Written by tests/golden/codec_golden.py (numpy), from docs/format/. One case = one unit."]
        if name.startswith("q"):
            lines += [
                "# The PyPI package gguf 0.19.0 gives the same bytes and values (codec_golden.py --gguf), except in the last",
                "# two cases, where it stores infinite scales, and up to the sign of a minimum of 0 in q4_1 and q5_1, where",
                "# ggml's own loop keeps the first zero and numpy's min does not.",
            ]
        for codec in codecs:
            n = 136 if "g128" in codec else 72 if "g64" in codec or name == "dict3" else 40
            if name.startswith("q"):
                n = 64
            for case, x in rows(n).items():
                if len(codecs) > 3 and case in ("tiny", "constant") and "4" not in codec:
                    continue  # keeps the files small
                fields, stats = encode(codec, x)
                data = b"".join(fields)
                lines += [
                    "",
                    f"case {case}",
                    f"codec {codec}",
                    f"input {text(x)}",
                    f"bytes {data.hex()}",
                    f"decoded {text(decode(codec, data, n))}",
                    "stats " + " ".join(map(str, stats)),
                ]
        (ROOT / f"tests/golden/codec/{name}.txt").write_text("\n".join(lines) + "\n")


def fill_example(match):
    lines = dict(line.split(" ", 1) for line in match[2].strip().splitlines())
    x = np.array([F(value) for value in lines["input"].split()])
    if "transform" in lines:
        body = f"transform {lines['transform']}\ninput {lines['input']}\noutput {text(transform(lines['transform'], x))}\n"
    else:
        fields, _ = encode(lines["codec"], x)
        data = b"".join(fields)
        body = (
            f"codec {lines['codec']}\ninput {lines['input']}\nbytes {' '.join(field.hex() for field in fields)}\n"
            f"decoded {text(decode(lines['codec'], data, len(x)))}\n"
        )
    return f"{match[1]}{body}{match[3]}"


def fill_docs():
    for page in sorted((ROOT / "docs/format").glob("*.md")):
        old = page.read_text()
        page.write_text(re.sub(r"(```kvant-example\n)(.*?)(```)", fill_example, old, flags=re.S))


def check_gguf():
    import importlib.metadata

    import gguf

    for kind in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0"):
        quant = gguf.GGMLQuantizationType[kind.upper()]
        for case, x in rows(64).items():
            if case in ("beyond half", "broken"):
                continue  # gguf stores an infinite scale
            ours = b"".join(encode(kind, x)[0])
            theirs = gguf.quantize(x.reshape(1, -1), quant)
            values = gguf.dequantize(theirs, quant).ravel()
            same = theirs.tobytes() == ours
            close = np.array_equal(values, decode(kind, ours, 64))
            print(f"gguf {importlib.metadata.version('gguf')} {kind} {case}: bytes {same} values {close}")


if __name__ == "__main__":
    if "--gguf" in sys.argv:
        check_gguf()
    else:
        write_golden()
        fill_docs()
