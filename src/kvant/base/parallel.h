// Worker threads. Work is cut into tasks whose boundaries do not depend on the number of threads, so results do not
// either; which worker runs a task is free.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace kvant {

class ThreadPool {
 public:
  // threads >= 1, the calling thread included.
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const;

  // Calls body(task, worker) for task in [0, tasks), each once; worker < threads() names the caller's scratch.
  // Returns when all are done. Not reentrant: a body must not call For on its own pool.
  void For(size_t tasks, const std::function<void(size_t task, size_t worker)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvant
