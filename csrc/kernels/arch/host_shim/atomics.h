// HIP's atomic functions. They are atomic for real, since several blocks may run at a time.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_ATOMICS_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_ATOMICS_H_

namespace hygon_backend::emulation {

// Replaces *address by change(*address) and returns what was there before.
template <class T, class Change>
T AtomicUpdate(T* address, Change change) {
  T before;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  T after = change(before);
  while (!__atomic_compare_exchange(address, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    after = change(before);
  }
  return before;
}

template <class T>
T AtomicAdd(T* address, T value) {
  return AtomicUpdate(address, [value](T before) { return before + value; });
}

template <class T>
T AtomicMax(T* address, T value) {
  return AtomicUpdate(address, [value](T before) { return before < value ? value : before; });
}

}  // namespace hygon_backend::emulation

inline int atomicAdd(int* address, int value) { return hygon_backend::emulation::AtomicAdd(address, value); }
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return hygon_backend::emulation::AtomicAdd(address, value);
}
inline float atomicAdd(float* address, float value) {
  return hygon_backend::emulation::AtomicAdd(address, value);
}

inline int atomicMax(int* address, int value) { return hygon_backend::emulation::AtomicMax(address, value); }
inline unsigned atomicMax(unsigned* address, unsigned value) {
  return hygon_backend::emulation::AtomicMax(address, value);
}
inline float atomicMax(float* address, float value) {
  return hygon_backend::emulation::AtomicMax(address, value);
}

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_ATOMICS_H_
