// The part of the HIP runtime that the launchers use. Device memory is heap memory, and every call,
// launches included, is done when it returns.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_RUNTIME_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_RUNTIME_H_

#include <cstddef>

// The numbers are HIP's.
enum hipError_t {
  hipSuccess = 0,
  hipErrorInvalidValue = 1,
  hipErrorOutOfMemory = 2,
  hipErrorInvalidConfiguration = 9,
  hipErrorInvalidDevice = 101,
};

enum hipMemcpyKind {
  hipMemcpyHostToHost = 0,
  hipMemcpyHostToDevice = 1,
  hipMemcpyDeviceToHost = 2,
  hipMemcpyDeviceToDevice = 3,
  hipMemcpyDefault = 4,
};

enum hipDeviceAttribute_t { hipDeviceAttributeMultiprocessorCount };

using hipStream_t = struct ihipStream_t*;

const char* hipGetErrorString(hipError_t error);
hipError_t hipGetLastError();
hipError_t hipPeekAtLastError();

hipError_t hipMalloc(void** memory, std::size_t bytes);
hipError_t hipFree(void* memory);
hipError_t hipMemcpy(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream = nullptr);
hipError_t hipMemset(void* memory, int byte, std::size_t bytes);
hipError_t hipMemsetAsync(void* memory, int byte, std::size_t bytes, hipStream_t stream = nullptr);

hipError_t hipDeviceSynchronize();
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipGetDevice(int* device);
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device);

template <class T>
hipError_t hipMalloc(T** memory, std::size_t bytes) {
  return hipMalloc(reinterpret_cast<void**>(memory), bytes);
}

namespace hygon_backend::emulation {

// Records an error for hipGetLastError, and returns it.
hipError_t SetLastError(hipError_t error);

}  // namespace hygon_backend::emulation

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_RUNTIME_H_
