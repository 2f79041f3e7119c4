#include "kvant/model/arch/arch.h"

namespace kvant {

const std::vector<Architecture>& Architectures() {
  static const std::vector<Architecture> architectures = {kLlamaArchitecture};
  return architectures;
}

}  // namespace kvant
