// Random numbers that are the same everywhere: xoshiro256++ (Blackman and Vigna), seeded by splitmix64.
#pragma once

#include <cstdint>

namespace mm {

class Random {
public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t &word : state_) {
      std::uint64_t z = (seed += 0x9e3779b97f4a7c15u);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  // Uniform below the bound, without bias (Lemire's rejection).
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = (next() >> 32) * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t reject = (0u - bound) % bound;
      while (static_cast<std::uint32_t>(product) < reject) product = (next() >> 32) * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  // What it goes on from; never all zero.
  static constexpr int n_words = 4;
  std::uint64_t *words() { return state_; }

private:
  static std::uint64_t rotate(std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
  std::uint64_t state_[n_words];
};

} // namespace mm
