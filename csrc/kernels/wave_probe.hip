#include <hip/hip_runtime.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "wave_probe.h"

namespace hygon_backend {
namespace {

__global__ void WriteWaveWidth(int* width) { *width = warpSize; }

void Check(hipError_t status, const char* call) {
  if (status != hipSuccess) {
    throw std::runtime_error(std::string(call) + " failed: " + hipGetErrorString(status));
  }
}

struct DeviceDeleter {
  // A destructor cannot report, and an error that matters shows up in the next call.
  void operator()(int* pointer) const { static_cast<void>(hipFree(pointer)); }
};

std::unique_ptr<int, DeviceDeleter> AllocateDeviceInt() {
  void* memory = nullptr;
  Check(hipMalloc(&memory, sizeof(int)), "hipMalloc");
  return std::unique_ptr<int, DeviceDeleter>(static_cast<int*>(memory));
}

}  // namespace

int ProbeWaveWidth() {
  const auto device_width = AllocateDeviceInt();
  hipLaunchKernelGGL(WriteWaveWidth, dim3(1), dim3(1), 0, nullptr, device_width.get());
  Check(hipGetLastError(), "hipLaunchKernelGGL");
  int width = 0;
  Check(hipMemcpy(&width, device_width.get(), sizeof(width), hipMemcpyDeviceToHost), "hipMemcpy");
  return width;
}

}  // namespace hygon_backend
