#include "kvant/base/parallel.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "kvant/base/check.h"

namespace kvant {
namespace {
// How often a worker looks for new work before it sleeps: a step of the model starts hundreds of loops a few
// microseconds apart, and a futex wake-up costs about 50 us on a virtual machine.
constexpr int kSpins = 2000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}
}  // namespace

struct ThreadPool::Impl {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  // A generation starts when `epoch` is raised and is over when `busy` is zero. No worker can mix up two of them:
  //  - `tasks`, `body`, `next` and `busy` are written only between generations, before `epoch` is raised; a worker
  //  reads
  //    them only after it saw that, and lowers `busy` as its last act, after its last look at them.
  //  - every worker takes part in every generation, also one that woke too late to find a task: For waits for it. So
  //    nobody is left in an old generation when a new one starts, and nobody can miss one.
  // All atomics are sequentially consistent, so what is written before is visible after, in both directions.
  std::atomic<size_t> epoch{0};
  std::atomic<bool> stop{false};
  std::atomic<size_t> next{0};
  std::atomic<size_t> busy{0};
  std::atomic<bool> in_loop{false};  // only to catch a second For
  size_t tasks = 0;
  const std::function<void(size_t, size_t)>* body = nullptr;

  // noexcept: an exception must not leave For while others still use the caller's body.
  void Drain(size_t worker) noexcept {
    for (size_t task = next.fetch_add(1); task < tasks; task = next.fetch_add(1)) (*body)(task, worker);
  }

  void Run(size_t worker) {
    size_t seen = 0;
    while (true) {
      for (int spin = 0; spin < kSpins && epoch.load() == seen && !stop.load(); ++spin) Pause();
      if (epoch.load() == seen) {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return epoch.load() != seen || stop.load(); });
      }
      if (stop.load()) return;
      seen = epoch.load();
      Drain(worker);
      busy.fetch_sub(1);
    }
  }
};

ThreadPool::ThreadPool(size_t threads) : impl_(std::make_unique<Impl>()) {
  KVANT_CHECK(threads >= 1);
  for (size_t worker = 1; worker < threads; ++worker) {
    impl_->workers.emplace_back([this, worker] { impl_->Run(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

size_t ThreadPool::threads() const { return impl_->workers.size() + 1; }

void ThreadPool::For(size_t tasks, const std::function<void(size_t, size_t)>& body) {
  if (tasks == 0) return;
  Impl& impl = *impl_;
  KVANT_CHECK(!impl.in_loop.exchange(true));
  impl.body = &body;
  impl.tasks = tasks;
  impl.next = 0;
  if (impl.workers.empty() || tasks == 1) {
    impl.Drain(0);
    impl.in_loop = false;
    return;
  }
  impl.busy = impl.workers.size();
  {
    std::lock_guard lock(impl.mutex);
    impl.epoch.fetch_add(1);
  }
  impl.wake.notify_all();
  impl.Drain(0);
  for (int spin = 0; impl.busy.load() != 0; ++spin) {
    if (spin < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
  impl.in_loop = false;
}

}  // namespace kvant
