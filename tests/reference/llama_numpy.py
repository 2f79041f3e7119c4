#!/usr/bin/env python3
"""An independent Llama forward pass with a simulated quantized cache, in numpy, from the definitions alone.

    llama_numpy.py MODEL.gguf IDS.txt > single_layer_arms.json

IDS.txt holds token ids, one a line: the first 1,280 are fed, the last 256 of them scored. Needs the PyPI packages numpy
and gguf (which dequantizes the weights). Keys or values of ONE layer are encoded and decoded as they enter the cache;
all other layers are exact. Quantization in one layer is not amplified by the ones that follow, so two right programs
agree closely here, where they do not with all layers quantized (docs/decisions/0002-rounding-realizations.md).
--float64 computes in double: the numbers must hardly move.
"""

import json
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

CONTEXT, SCORED = 1024, 256
LAYERS = (0, 9, 19, 29)


def signed_max_4bit(x):
    """ggml q4_0: reciprocal of the unrounded scale when coding, half scale when decoding."""
    groups = x.astype(np.float32).reshape(-1, 32)
    extreme = groups[np.arange(len(groups)), np.abs(groups).argmax(axis=1)]
    scale = extreme / np.float32(-8)
    reciprocal = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
    codes = np.minimum(15, np.trunc(groups * reciprocal[:, None] + np.float32(8.5)))
    return ((codes - 8) * scale.astype(np.float16).astype(np.float32)[:, None]).astype(np.float32).reshape(x.shape)


def absmax_8bit(x):
    """ggml q8_0, half away from zero."""
    groups = x.astype(np.float32).reshape(-1, 32)
    scale = np.abs(groups).max(axis=1) / np.float32(127)
    reciprocal = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
    scaled = groups * reciprocal[:, None]
    codes = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    return (codes * scale.astype(np.float16).astype(np.float32)[:, None]).astype(np.float32).reshape(x.shape)


def affine(bits, group):
    def code(x):
        groups = x.astype(np.float32).reshape(-1, group)
        low = groups.min(axis=1)
        scale = ((groups.max(axis=1) - low) / np.float32(2**bits - 1)).astype(np.float16).astype(np.float32)[:, None]
        low = low.astype(np.float16).astype(np.float32)[:, None]
        codes = np.where(scale == 0, 0, np.clip(np.rint((groups - low) / np.where(scale == 0, 1, scale)), 0, 2**bits - 1))
        return (codes * scale + low).astype(np.float32).reshape(x.shape)

    return code


def rotated(code, size):
    hadamard = np.array([[(-1) ** bin(i & j).count("1") for j in range(size)] for i in range(size)], dtype=np.float32)
    hadamard /= np.float32(np.sqrt(size))
    return lambda x: code(x.astype(np.float32) @ hadamard) @ hadamard


class Llama:
    def __init__(self, path, ids, dtype):
        reader = GGUFReader(path)
        self.dtype, self.ids = dtype, ids
        field = lambda name: reader.fields[name].parts[reader.fields[name].data[0]][0]
        self.heads = int(field("llama.attention.head_count"))
        self.kv_heads = int(field("llama.attention.head_count_kv"))
        self.layers = int(field("llama.block_count"))
        self.size = int(field("llama.embedding_length")) // self.heads
        self.epsilon = dtype(field("llama.attention.layer_norm_rms_epsilon"))
        self.weights = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
        for layer in range(self.layers):
            for name, heads in (("attn_q", self.heads), ("attn_k", self.kv_heads)):
                key = f"blk.{layer}.{name}.weight"
                pairs = self.weights[key].reshape(heads, self.size // 2, 2, -1)  # GGUF: rotary pairs side by side
                self.weights[key] = pairs.swapaxes(1, 2).reshape(heads * self.size, -1)
        self.weights = {name: value.astype(dtype) for name, value in self.weights.items()}
        base = np.float32(field("llama.rope.freq_base"))
        exponents = np.arange(0, self.size, 2, dtype=np.float32) / np.float32(self.size)
        angles = np.arange(len(ids), dtype=np.float32)[:, None] * (np.float32(1) / base**exponents)[None]
        self.cos, self.sin = np.cos(angles).astype(dtype)[:, None], np.sin(angles).astype(dtype)[:, None]
        self.inputs = []  # residual stream before each layer, without quantization
        self.exact = self.log_probabilities()

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.epsilon) * self.weights[name]

    def rope(self, x):
        first, second = x[..., : self.size // 2], x[..., self.size // 2 :]
        return np.concatenate([first * self.cos - second * self.sin, second * self.cos + first * self.sin], axis=-1)

    def layer(self, index, x, code_k, code_v):
        tokens, prefix = len(x), f"blk.{index}."
        product = lambda u, name: u @ self.weights[prefix + name + ".weight"].T
        u = self.norm(x, prefix + "attn_norm.weight")
        q = self.rope(product(u, "attn_q").reshape(tokens, self.heads, self.size))
        k = code_k(self.rope(product(u, "attn_k").reshape(tokens, self.kv_heads, self.size))).astype(self.dtype)
        v = code_v(product(u, "attn_v").reshape(tokens, self.kv_heads, self.size)).astype(self.dtype)
        future = np.triu(np.full((tokens, tokens), -np.inf, dtype=self.dtype), 1)
        out = np.empty_like(q)
        for head in range(self.heads):
            kv = head // (self.heads // self.kv_heads)
            scores = q[:, head] @ k[:, kv].T / self.dtype(np.sqrt(self.size)) + future
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[:, head] = weights / weights.sum(axis=-1, keepdims=True) @ v[:, kv]
        x = x + product(out.reshape(tokens, -1), "attn_output")
        u = self.norm(x, prefix + "ffn_norm.weight")
        gate = product(u, "ffn_gate")
        return x + product(gate / (1 + np.exp(-gate)) * product(u, "ffn_up"), "ffn_down")

    def log_probabilities(self, coded_layer=0, code_k=None, code_v=None):
        """Of the scored positions; layers before the coded one are taken from the exact run."""
        same = lambda x: x
        if coded_layer == 0:
            x = self.weights["token_embd.weight"][self.ids]
        else:
            x = self.inputs[coded_layer]
        for index in range(coded_layer, self.layers):
            if code_k is None:
                self.inputs.append(x)
            coded = index == coded_layer
            x = self.layer(index, x, code_k if coded and code_k else same, code_v if coded and code_v else same)
        x = self.norm(x[-SCORED:], "output_norm.weight")
        logits = (x @ self.weights.get("output.weight", self.weights["token_embd.weight"]).T).astype(np.float64)
        logits -= logits.max(axis=-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    def arm(self, layer, code_k, code_v):
        got = self.log_probabilities(layer, code_k, code_v)
        kl = (np.exp(self.exact) * (self.exact - got)).sum(axis=-1)
        targets = self.ids[-SCORED + 1 :]
        return {
            "mean_kl": kl.mean(),
            "p99_kl": np.percentile(kl, 99),
            "top1": (got.argmax(axis=-1) == self.exact.argmax(axis=-1)).mean(),
            "ppl": np.exp(-got[np.arange(SCORED - 1), targets].mean()),
        }


def main():
    arguments = [word for word in sys.argv[1:] if word != "--float64"]
    dtype = np.float64 if "--float64" in sys.argv else np.float32
    ids = np.array([int(word) for word in open(arguments[1]).read().split()][: CONTEXT + SCORED])
    model = Llama(arguments[0], ids, dtype)
    codes = {
        "q4_0": signed_max_4bit,
        "had+q4_0": rotated(signed_max_4bit, model.size),
        "q8_0": absmax_8bit,
        "affine3/g32": affine(3, 32),
        "affine2/head": affine(2, model.size),
    }
    same = lambda x: x
    arms = {}
    for layer in LAYERS:
        for name, code in codes.items():
            arms[f"k=f32 v=f32 k[{layer}]={name}"] = model.arm(layer, code, same)
            arms[f"k=f32 v=f32 v[{layer}]={name}"] = model.arm(layer, same, code)
            print(layer, name, file=sys.stderr)
    targets = ids[-SCORED + 1 :]
    ppl = np.exp(-model.exact[np.arange(SCORED - 1), targets].mean())
    print(json.dumps({"context": CONTEXT, "scored": SCORED, "ref_ppl": ppl, "arms": arms}, indent=1))


if __name__ == "__main__":
    main()
