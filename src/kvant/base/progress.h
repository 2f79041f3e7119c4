// Where long work reports how far it is. The library calls it; only apps/ turns it into text.
#pragma once

#include <cstddef>
#include <string>

namespace kvant {

struct ProgressUpdate {
  std::string what;         // the cell in flight, e.g. "k4, 1024 tokens before 9216"
  size_t done_tokens = 0;   // of the whole run
  size_t total_tokens = 0;  // of the whole run
  size_t done_cells = 0;
  size_t total_cells = 0;
  double tokens_per_second = 0;
  double seconds_left = 0;
};

class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void Update(const ProgressUpdate& update) = 0;
  // Polled between chunks: true asks the work to stop cleanly (Ctrl-C).
  virtual bool Cancelled() const { return false; }
};

}  // namespace kvant
