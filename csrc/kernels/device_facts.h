// What planners ask about the current device: interface without HIP, torch or Python.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DEVICE_FACTS_H_
#define HYGON_BACKEND_CSRC_KERNELS_DEVICE_FACTS_H_

namespace hygon_backend {

// Compute units (multiprocessors) of the current device.
int NumComputeUnits();

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DEVICE_FACTS_H_
