#include "kernels.hpp"

#include <atomic>
#include <string>

#include "instruction_set.hpp"

namespace mm {

namespace {
bool runs_avx2() {
#if defined(MM_HAVE_AVX2)
  return __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

const Kernels *fastest() {
#if defined(MM_HAVE_AVX2)
  if (runs_avx2()) return &kernels_avx2();
#endif
  return &kernels_baseline();
}

std::atomic<const Kernels *> chosen{nullptr};
} // namespace

const Kernels &kernels() {
  const Kernels *table = chosen.load(std::memory_order_acquire);
  if (table == nullptr) chosen.store(table = fastest(), std::memory_order_release);
  return *table;
}

double kernel_value(double product, double norm_x, double norm_z, const KernelFunction &f) {
  double value = 0;
  kernels().of_double.values(&product, &norm_x, norm_z, 1, f, &value);
  return value;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names{"baseline"};
  if (runs_avx2()) names.push_back("avx2");
  return names;
}

std::string instruction_set() { return kernels().name; }

bool use_instruction_set(const std::string &name) {
  if (name == "baseline") {
    chosen = &kernels_baseline();
    return true;
  }
#if defined(MM_HAVE_AVX2)
  if (name == "avx2" && runs_avx2()) {
    chosen = &kernels_avx2();
    return true;
  }
#endif
  return false;
}

} // namespace mm
