// What emulated device code can ask of the emulator beyond HIP's own names: where it runs, and the one
// wave-wide collective from which shuffles, votes and matrix instructions are built.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_EMULATION_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_EMULATION_H_

#include <cstddef>
#include <type_traits>

#include "dim3.h"
#include "fatal.h"

namespace hygon_backend::emulation {

constexpr int kWaveWidth = 64;
constexpr std::size_t kMaxExchangeBytes = 256;

// What memory holds before anyone wrote it: a NaN in every floating-point format that kernels use.
constexpr int kPoisonByte = 0xFF;

struct GridPosition {
  dim3 block_index;
  dim3 block_dim;
  dim3 grid_dim;
};

struct ThreadPosition {
  dim3 index;
  int wave = 0;
  int lane = 0;
  const GridPosition* position = nullptr;
};

// The emulated thread that runs now; null outside a kernel. `__thread`, since `thread_local` would go
// through an initialisation wrapper on every threadIdx.
extern __thread const ThreadPosition* current_thread;

inline const ThreadPosition& CurrentThread() {
  if (current_thread == nullptr) {
    Die("device code was called outside a kernel");
  }
  return *current_thread;
}

inline int Lane() { return CurrentThread().lane; }
inline int Wave() { return CurrentThread().wave; }

// `signature` tells exchanges of different types apart.
const void* ExchangeBytes(const void* mine, std::size_t bytes, const char* signature);

// Every living lane of the wave gives its value, and each gets the values of all 64 lanes, readable until
// its next Exchange. Lanes that have returned, or that a partial wave never had, read as kPoisonByte.
// Aborts when lanes of one wave meet in different collectives.
template <class T>
const T* Exchange(T mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(sizeof(T) <= kMaxExchangeBytes);
  return static_cast<const T*>(ExchangeBytes(&mine, sizeof(T), __PRETTY_FUNCTION__));
}

// __syncthreads. All threads of a block must wait at the same place in the source.
void BlockBarrier(const char* file, int line);

}  // namespace hygon_backend::emulation

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_EMULATION_H_
