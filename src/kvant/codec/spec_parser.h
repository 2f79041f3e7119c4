// ParseCodec for a codec that starts at character `base` of a longer text. Internal to codec/.
#pragma once

#include <cstddef>
#include <string_view>

#include "kvant/codec/codec.h"

namespace kvant::codec_detail {
Result<CodecSpec> ParseCodecAt(std::string_view text, size_t base);
}  // namespace kvant::codec_detail
