// Does not compile: LDS that the emulator could neither poison nor guard.
#include <hip/hip_runtime.h>

__global__ void Kernel(int* out) {
  __shared__ int tile[4];
  *out = tile[0];
}
