#include "case_main.h"
#include "detail/shared.h"

namespace {

__global__ void ReadUnwritten(int* out) {
  HYGON_SHARED(int, tile, 4);
  out[threadIdx.x] = tile[threadIdx.x];
}

// Each block adds to what it finds: 0xFFFFFFFF (-1) in every block if nothing survives.
__global__ void AddToWhatIsThere(int* out) {
  HYGON_SHARED(int, tile, 4);
  const int before = tile[threadIdx.x];
  tile[threadIdx.x] = 7;
  out[blockIdx.x * blockDim.x + threadIdx.x] = before;
}

__device__ int* OneArray() {
  HYGON_SHARED(int, tile, 1);
  return tile;
}

template <class T, int id>
__device__ T* ArrayOfInstance() {
  HYGON_SHARED(T, tile, 1);
  return tile;
}

// Same declaration, same array; another declaration or instantiation, another array.
__global__ void Identity(int* out) {
  HYGON_SHARED(int, first, 1);
  HYGON_SHARED(int, second, 1);
  out[0] = OneArray() == OneArray();
  out[1] = ArrayOfInstance<int, 0>() == ArrayOfInstance<int, 0>();
  out[2] = ArrayOfInstance<int, 0>() == ArrayOfInstance<int, 1>();
  out[3] = &first == &second;
}

__global__ void Shape(int* out) {
  using Row = float[24];
  HYGON_SHARED(Row, rows, 3);
  HYGON_SHARED(char, bytes, 5);
  out[0] = static_cast<int>(sizeof(rows));
  out[1] = static_cast<int>(reinterpret_cast<std::size_t>(&rows) % 16);
  out[2] = static_cast<int>(sizeof(bytes));
  out[3] = static_cast<int>(reinterpret_cast<std::size_t>(&bytes) % 16);
}

template <int count>
__global__ void Large(char* out) {
  HYGON_SHARED(char, tile, count);
  HYGON_SHARED(char, more, 1);
  tile[0] = more[0] = 1;
  *out = static_cast<char>(tile[0] + more[0]);
}

template <class T>
void Run(void (*kernel)(T*), dim3 grid, dim3 block, std::size_t count) {
  const DeviceArray<T> out(count);
  hipLaunchKernelGGL(kernel, grid, block, 0, nullptr, out.get());
  Print(out);
}

}  // namespace

int main(int argc, char** argv) {
  return RunCase(argc, argv,
                 {
                     {"unwritten", [] { Run(ReadUnwritten, dim3(1), dim3(4), 4); }},
                     {"block_after_block", [] { Run(AddToWhatIsThere, dim3(3), dim3(4), 12); }},
                     {"identity", [] { Run(Identity, dim3(1), dim3(1), 4); }},
                     {"shape", [] { Run(Shape, dim3(1), dim3(1), 4); }},
                     {"all_of_it", [] { Run(Large<64 * 1024 - 16>, dim3(2), dim3(1), 1); }},
                     {"too_much", [] { Run(Large<64 * 1024>, dim3(1), dim3(1), 1); }},
                 });
}
