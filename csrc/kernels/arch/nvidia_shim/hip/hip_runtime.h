// Lets nvcc compile the HIP kernel sources: maps the part of the HIP runtime that they use to CUDA.
// It is found in place of the real <hip/hip_runtime.h> through the include path of the nvidia target.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_SHIM_HIP_HIP_RUNTIME_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_SHIM_HIP_HIP_RUNTIME_H_

#include <cuda_runtime.h>

using hipError_t = cudaError_t;
using hipStream_t = cudaStream_t;

// Macros, since an alias cannot name a function, and some of these are overloaded or templates.
#define hipSuccess cudaSuccess
#define hipGetErrorString cudaGetErrorString
#define hipGetLastError cudaGetLastError

#define hipGetDevice cudaGetDevice
#define hipDeviceGetAttribute cudaDeviceGetAttribute
#define hipDeviceAttributeMultiprocessorCount cudaDevAttrMultiProcessorCount

#define hipFuncSetAttribute cudaFuncSetAttribute
#define hipFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributeMaxDynamicSharedMemorySize

#define hipFree cudaFree
#define hipMalloc cudaMalloc
#define hipMemcpy cudaMemcpy
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost

#define hipLaunchKernelGGL(kernel, grid, block, shared_bytes, stream, ...) \
  kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_NVIDIA_SHIM_HIP_HIP_RUNTIME_H_
