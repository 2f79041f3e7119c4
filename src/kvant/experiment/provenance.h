// Which program on which machine made a number.
#pragma once

#include <string>

namespace kvant {

inline constexpr const char* kVersion = KVANT_VERSION;

std::string CpuModel();  // as the kernel names it
std::string DateUtc();   // now, ISO 8601
// Threads that this process may run at the same time: its processor affinity.
size_t AvailableThreads();

}  // namespace kvant
