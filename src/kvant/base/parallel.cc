#include "kvant/base/parallel.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
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
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  // False when the system gives no more threads; those that started end with this object.
  bool Start(size_t threads) {
    try {
      workers.reserve(threads - 1);
      for (size_t worker = 1; worker < threads; ++worker) {
        workers.emplace_back([this, worker] { Run(worker); });
      }
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

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

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(size_t threads) {
  KVANT_CHECK(threads >= 1);
  auto impl = std::make_unique<Impl>();
  if (!impl->Start(threads)) {
    return Fail("the system does not start {} threads; use fewer (--threads)", threads);
  }
  return std::unique_ptr<ThreadPool>(new ThreadPool(std::move(impl)));
}

ThreadPool::ThreadPool(size_t threads) : impl_(std::make_unique<Impl>()) {
  KVANT_CHECK(threads >= 1);
  KVANT_CHECK(impl_->Start(threads));
}

ThreadPool::ThreadPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ThreadPool::~ThreadPool() = default;

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
