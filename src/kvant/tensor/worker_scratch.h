// Scratch of the workers of a ThreadPool: one part each, kept between calls so that a step of the model allocates
// nothing.
#pragma once

#include <cstddef>

#include "kvant/tensor/aligned_buffer.h"

namespace kvant {

class WorkerScratch {
 public:
  // Parts of at least `elems_per_worker` values for `workers` workers. The contents are lost; the memory never shrinks.
  void Reserve(size_t workers, size_t elems_per_worker) {
    per_worker_ = elems_per_worker;
    buffer_.Reserve(workers * elems_per_worker);
  }
  // The part of one worker, as Reserve last cut them.
  float* ForWorker(size_t worker) { return buffer_.data() + worker * per_worker_; }
  size_t bytes() const { return buffer_.bytes(); }

 private:
  AlignedBuffer<float> buffer_;
  size_t per_worker_ = 0;
};

}  // namespace kvant
