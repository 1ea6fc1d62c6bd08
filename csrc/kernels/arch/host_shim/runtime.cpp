#include "runtime.h"

#include <cstdlib>
#include <cstring>

#include "emulation.h"

namespace {

using hygon_backend::emulation::kPoisonByte;
using hygon_backend::emulation::SetLastError;

constexpr int kComputeUnits = 8;
// What HIP promises for device memory.
constexpr std::size_t kDeviceAlignment = 256;

thread_local hipError_t last_error = hipSuccess;

}  // namespace

namespace hygon_backend::emulation {

hipError_t SetLastError(hipError_t error) {
  if (error != hipSuccess) {
    last_error = error;
  }
  return error;
}

}  // namespace hygon_backend::emulation

const char* hipGetErrorString(hipError_t error) {
  switch (error) {
    case hipSuccess:
      return "no error";
    case hipErrorInvalidValue:
      return "invalid argument";
    case hipErrorOutOfMemory:
      return "out of memory";
    case hipErrorInvalidConfiguration:
      return "invalid configuration argument";
    case hipErrorInvalidDevice:
      return "invalid device ordinal";
  }
  return "unknown error";
}

hipError_t hipPeekAtLastError() { return last_error; }

hipError_t hipGetLastError() {
  const hipError_t error = last_error;
  last_error = hipSuccess;
  return error;
}

hipError_t hipMalloc(void** memory, std::size_t bytes) {
  if (memory == nullptr) {
    return SetLastError(hipErrorInvalidValue);
  }
  *memory = nullptr;
  if (bytes == 0) {
    return hipSuccess;
  }
  if (posix_memalign(memory, kDeviceAlignment, bytes) != 0) {
    *memory = nullptr;
    return SetLastError(hipErrorOutOfMemory);
  }
  std::memset(*memory, kPoisonByte, bytes);
  return hipSuccess;
}

hipError_t hipFree(void* memory) {
  std::free(memory);
  return hipSuccess;
}

hipError_t hipMemcpy(void* to, const void* from, std::size_t bytes, hipMemcpyKind /*kind*/) {
  if (bytes == 0) {
    return hipSuccess;
  }
  if (to == nullptr || from == nullptr) {
    return SetLastError(hipErrorInvalidValue);
  }
  std::memmove(to, from, bytes);
  return hipSuccess;
}

hipError_t hipMemcpyAsync(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
                          hipStream_t /*stream*/) {
  return hipMemcpy(to, from, bytes, kind);
}

hipError_t hipMemset(void* memory, int byte, std::size_t bytes) {
  if (bytes == 0) {
    return hipSuccess;
  }
  if (memory == nullptr) {
    return SetLastError(hipErrorInvalidValue);
  }
  std::memset(memory, byte, bytes);
  return hipSuccess;
}

hipError_t hipMemsetAsync(void* memory, int byte, std::size_t bytes, hipStream_t /*stream*/) {
  return hipMemset(memory, byte, bytes);
}

hipError_t hipDeviceSynchronize() { return hipSuccess; }

hipError_t hipStreamSynchronize(hipStream_t /*stream*/) { return hipSuccess; }

hipError_t hipGetDevice(int* device) {
  if (device == nullptr) {
    return SetLastError(hipErrorInvalidValue);
  }
  *device = 0;
  return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  if (value == nullptr || attribute != hipDeviceAttributeMultiprocessorCount) {
    return SetLastError(hipErrorInvalidValue);
  }
  if (device != 0) {
    return SetLastError(hipErrorInvalidDevice);
  }
  *value = kComputeUnits;
  return hipSuccess;
}
