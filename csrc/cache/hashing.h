// Keyed hashes: whoever sends the tokens must not be able to choose what collides.
#ifndef HYGON_BACKEND_CSRC_CACHE_HASHING_H_
#define HYGON_BACKEND_CSRC_CACHE_HASHING_H_

#include <array>
#include <cstdint>
#include <random>

namespace hygon_backend::cache {

// 128 secret bits.
using HashKey = std::array<std::uint64_t, 2>;

inline HashKey RandomHashKey() {
  std::random_device device;
  const auto word = [&device] {
    const std::uint64_t high = device();
    return high << 32 | device();
  };
  return {word(), word()};
}

// Product of two words, its halves folded: a fast mixer whose key makes collisions unpredictable.
inline std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// SipHash-2-4 (Aumasson and Bernstein, 2012) over whole 64-bit words.
class SipHash {
 public:
  explicit SipHash(const HashKey& key)
      : v0_(key[0] ^ 0x736f6d6570736575u),
        v1_(key[1] ^ 0x646f72616e646f6du),
        v2_(key[0] ^ 0x6c7967656e657261u),
        v3_(key[1] ^ 0x7465646279746573u) {}

  void Add(std::uint64_t word) {
    v3_ ^= word;
    Round();
    Round();
    v0_ ^= word;
    ++words_;
  }

  std::uint64_t Finish() {
    Add(words_ * 8 << 56);
    v2_ ^= 0xff;
    for (int i = 0; i < 4; ++i) Round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  static std::uint64_t Rotate(std::uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

  void Round() {
    v0_ += v1_;
    v1_ = Rotate(v1_, 13) ^ v0_;
    v0_ = Rotate(v0_, 32);
    v2_ += v3_;
    v3_ = Rotate(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = Rotate(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = Rotate(v1_, 17) ^ v2_;
    v2_ = Rotate(v2_, 32);
  }

  std::uint64_t v0_;
  std::uint64_t v1_;
  std::uint64_t v2_;
  std::uint64_t v3_;
  std::uint64_t words_ = 0;
};

// 128 bits: with a secret key, nobody finds two inputs that share them.
using Digest = std::array<std::uint64_t, 2>;

struct DigestHash {
  std::size_t operator()(const Digest& digest) const { return static_cast<std::size_t>(digest[0]); }
};

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_HASHING_H_
