// Turns the runtime's error codes into exceptions.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_LAUNCH_CHECK_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_LAUNCH_CHECK_H_

#include <hip/hip_runtime.h>

#include <stdexcept>
#include <string>

namespace hygon_backend {

// Throws std::runtime_error that names the call and carries the runtime's message.
inline void CheckHip(hipError_t status, const char* call) {
  if (status != hipSuccess) {
    throw std::runtime_error(std::string(call) + " failed: " + hipGetErrorString(status));
  }
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_LAUNCH_CHECK_H_
