// Device memory for one object, freed with its owner. For probes: operators allocate nothing.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_DEVICE_MEMORY_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_DEVICE_MEMORY_H_

#include <hip/hip_runtime.h>

#include <memory>

#include "launch_check.h"

namespace hygon_backend {

struct DeviceDeleter {
  // A destructor cannot report, and an error that matters shows up in the next call.
  void operator()(void* pointer) const { static_cast<void>(hipFree(pointer)); }
};

template <class T>
using DeviceObject = std::unique_ptr<T, DeviceDeleter>;

template <class T>
DeviceObject<T> AllocateOnDevice() {
  void* memory = nullptr;
  CheckHip(hipMalloc(&memory, sizeof(T)), "hipMalloc");
  return DeviceObject<T>(static_cast<T*>(memory));
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_DEVICE_MEMORY_H_
