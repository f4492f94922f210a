// Memory that is refused once: of all requests of C++ code for at least `least` bytes after fail_at(n, least), the n-th
// (from 0) throws std::bad_alloc. Loaded before all other libraries by allocations.py.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> armed{false};
std::atomic<long> asked{0}, refused_at{0};
std::atomic<std::size_t> least_bytes{0};

void *memory(std::size_t size, std::size_t alignment) {
  if (armed && size >= least_bytes && asked++ == refused_at) throw std::bad_alloc();
  void *const found = alignment == 0 ? std::malloc(size == 0 ? 1 : size)
                                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (found == nullptr) throw std::bad_alloc();
  return found;
}

} // namespace

extern "C" void fail_at(long number, std::size_t least) {
  asked = 0;
  refused_at = number;
  least_bytes = least;
  armed = true;
}

// Fail no more; how many requests there were.
extern "C" long fail_no_more() {
  armed = false;
  return asked;
}

void *operator new(std::size_t size) { return memory(size, 0); }
void *operator new[](std::size_t size) { return memory(size, 0); }
void *operator new(std::size_t size, std::align_val_t alignment) { return memory(size, static_cast<std::size_t>(alignment)); }
void *operator new[](std::size_t size, std::align_val_t alignment) { return memory(size, static_cast<std::size_t>(alignment)); }
void operator delete(void *p) noexcept { std::free(p); }
void operator delete[](void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }
void operator delete[](void *p, std::size_t) noexcept { std::free(p); }
void operator delete(void *p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void *p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void *p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void *p, std::size_t, std::align_val_t) noexcept { std::free(p); }
