// Worker threads. Work is cut into tasks whose boundaries do not depend on the number of threads, so results do not
// either; which worker runs a task is free.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "kvant/base/result.h"

namespace kvant {

class ThreadPool {
 public:
  // threads >= 1, the calling thread included. Fails when the system does not give that many.
  static Result<std::unique_ptr<ThreadPool>> Create(size_t threads);
  // The same where they are known to start; a KVANT_CHECK otherwise.
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const;

  // Calls body(task, worker) for task in [0, tasks), each once; worker < threads() names the caller's scratch, and the
  // calling thread is worker 0. Returns when all are done; what the tasks wrote is then visible to the caller.
  //
  // One loop at a time: a body that calls For on its own pool, or a second thread that calls it meanwhile, is a bug of
  // ours and fails a KVANT_CHECK, with any number of threads. A KVANT_CHECK that fails inside a body ends the program
  // as anywhere. A body must not throw: with memory exhausted (std::bad_alloc) or a bug, the program ends in
  // std::terminate, since the other workers still run in the caller's frame. Fallible work stores a Result per task.
  void For(size_t tasks, const std::function<void(size_t task, size_t worker)>& body);

 private:
  struct Impl;
  explicit ThreadPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvant
