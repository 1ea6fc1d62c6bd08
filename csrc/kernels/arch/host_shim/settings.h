#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_SETTINGS_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_SETTINGS_H_

namespace hygon_backend::emulation {

struct Settings {
  // HYGON_EMULATION_ORDER=forward|reversed: in which order blocks, waves and lanes get to run. A kernel
  // that lacks a barrier, or counts on an order of blocks, gives different results.
  bool reversed = false;
  // HYGON_EMULATION_THREADS: how many blocks run at a time.
  unsigned workers = 1;
};

// Reads the environment at the first call. Aborts on a value that it does not know.
const Settings& GetSettings();

}  // namespace hygon_backend::emulation

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_SETTINGS_H_
