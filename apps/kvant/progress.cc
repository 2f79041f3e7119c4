#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace kvant {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// Of this moment: windows change their size.
size_t TerminalColumns() {
  constexpr size_t kUsualColumns = 80;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualColumns;
  return size.ws_col;
}

}  // namespace

void StopOnSignals() {
  std::signal(SIGINT, [](int) { interrupted = 1; });
  std::signal(SIGTERM, [](int) { interrupted = 1; });
}

TerminalProgress::TerminalProgress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void TerminalProgress::Update(const ProgressUpdate& update) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(4))) return;
  last_ = now;
  const long left = std::lround(update.seconds_left);
  std::string line =
      fmt::format("cell {}/{}  {:.0f} tokens/s  {}:{:02} left  {}", std::min(update.done_cells + 1, update.total_cells),
                  update.total_cells, update.tokens_per_second, left / 60, left % 60, update.what);
  // A line that wraps would not be rewritten but pile up.
  if (terminal_ && line.size() >= TerminalColumns()) line.resize(TerminalColumns() - 1);
  std::fputs(terminal_ ? fmt::format("\r\033[K{}", line).c_str() : fmt::format("{}\n", line).c_str(), stderr);
}

bool TerminalProgress::Cancelled() const { return interrupted != 0; }

void TerminalProgress::Finish() const {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

}  // namespace kvant
