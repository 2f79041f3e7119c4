// Progress on standard error.
#pragma once

#include <chrono>

#include "kvant/base/progress.h"

namespace kvant {

// SIGINT and SIGTERM ask the work to stop after the chunk in flight.
void StopOnSignals();

// A line that is rewritten on a terminal, cut to its width; elsewhere a line every few seconds.
class TerminalProgress : public ProgressSink {
 public:
  TerminalProgress();
  void Update(const ProgressUpdate& update) override;
  bool Cancelled() const override;
  void Finish() const;

 private:
  bool terminal_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace kvant
