#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_DIM3_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_DIM3_H_

#include <cstdint>

// HIP's name, so it keeps HIP's spelling.
struct dim3 {
  std::uint32_t x;
  std::uint32_t y;
  std::uint32_t z;

  // Not explicit: HIP code passes plain numbers where a dim3 is expected.
  constexpr dim3(std::uint32_t x_size = 1, std::uint32_t y_size = 1, std::uint32_t z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
};

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_DIM3_H_
