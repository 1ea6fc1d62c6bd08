#ifndef HYGON_BACKEND_CSRC_KERNELS_WAVE_PROBE_H_
#define HYGON_BACKEND_CSRC_KERNELS_WAVE_PROBE_H_

namespace hygon_backend {

// Asks the current device, from inside a kernel, how many lanes its wave has. Waits for the answer.
// Throws std::runtime_error that names the failed runtime call and carries the runtime's message.
int ProbeWaveWidth();

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_WAVE_PROBE_H_
