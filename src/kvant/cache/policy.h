// A policy: what K and V of every attention layer are stored as. Text form, e.g.
//
//   k=had+q4_0 v=affine3/g64 window=128 sinks=4
//   k=q8_0 v=q4_0 k[0,1,-1]=f16 order=interleaved
//
// Keys: k, v (a format; required), k[LAYERS] and v[LAYERS] (overrides; layers count attention layers from 0, negative
// from the end), window (most recent tokens kept exact), sinks (first tokens kept exact), exact (codec of window and
// sinks: f32, the default, f16 or bf16), at (where keys are quantized: post_rope), order (channel order of rotary keys:
// half, the default, as in Hugging Face and the papers, or interleaved, as llama.cpp stores Llama-family keys; it says
// which channels share a group, so plain f32, f16 and bf16 are stored alike with both).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/codec/transform.h"

namespace kvant {

enum class ChannelOrder : uint8_t { kHalf, kInterleaved };

struct LayerOverride {
  std::vector<int> layers;  // as written, negative from the end
  Format format;
};

// How one side of one layer is stored.
struct StreamPolicy {
  Format format;                       // transforms begin with kInterleave where an interleaved order matters
  size_t window = 0;                   // tokens
  size_t sinks = 0;                    // tokens
  CodecSpec exact{CodecFamily::kF32};  // codec of window and sinks
};

// Without window and sinks where they would be stored as everything else is: one segment, so that an exact policy has
// the same bits with and without them.
StreamPolicy Simplified(StreamPolicy policy);

struct Policy {
  std::string text;  // as given
  Format k;
  Format v;
  std::vector<LayerOverride> k_overrides;  // later ones win
  std::vector<LayerOverride> v_overrides;
  size_t window = 0;
  size_t sinks = 0;
  CodecSpec exact{CodecFamily::kF32};
  ChannelOrder order = ChannelOrder::kHalf;

  StreamPolicy KeysOf(size_t layer, size_t layers) const;
  StreamPolicy ValuesOf(size_t layer, size_t layers) const;
};

// Errors point at the character: "k=q4_7 v=f32: at character 2: ...".
Result<Policy> ParsePolicy(std::string_view text);
// Total round trip: the text that was parsed.
inline const std::string& ToText(const Policy& policy) { return policy.text; }
// One spelling for policies that store the same bytes: fixed key order, defaults left out. Part of cell identities.
std::string CanonicalText(const Policy& policy);

}  // namespace kvant
