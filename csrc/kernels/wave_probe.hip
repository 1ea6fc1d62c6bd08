#include <hip/hip_runtime.h>

#include "detail/device_memory.h"
#include "detail/launch_check.h"
#include "wave_probe.h"

namespace hygon_backend {
namespace {

__global__ void WriteWaveWidth(int* width) { *width = warpSize; }

}  // namespace

int ProbeWaveWidth() {
  const auto device_width = AllocateOnDevice<int>();
  hipLaunchKernelGGL(WriteWaveWidth, dim3(1), dim3(1), 0, nullptr, device_width.get());
  CheckHip(hipGetLastError(), "hipLaunchKernelGGL");
  int width = 0;
  CheckHip(hipMemcpy(&width, device_width.get(), sizeof(width), hipMemcpyDeviceToHost), "hipMemcpy");
  return width;
}

}  // namespace hygon_backend
