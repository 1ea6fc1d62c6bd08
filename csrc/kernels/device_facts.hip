// Facts about the current device.
#include <hip/hip_runtime.h>

#include "detail/launch_check.h"
#include "device_facts.h"

namespace hygon_backend {

int NumComputeUnits() {
  int device = 0;
  int count = 0;
  CheckHip(hipGetDevice(&device), "hipGetDevice");
  CheckHip(hipDeviceGetAttribute(&count, hipDeviceAttributeMultiprocessorCount, device),
           "hipDeviceGetAttribute");
  return count;
}

}  // namespace hygon_backend
