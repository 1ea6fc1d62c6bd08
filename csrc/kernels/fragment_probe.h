// Recovers from the card itself how its matrix unit holds fragments, and compares that with what the
// kernels were compiled to assume (see detail/fragment.h). Interface without HIP, torch or Python.
#ifndef HYGON_BACKEND_CSRC_KERNELS_FRAGMENT_PROBE_H_
#define HYGON_BACKEND_CSRC_KERNELS_FRAGMENT_PROBE_H_

#include <string>
#include <vector>

#include "detail/element_type.h"

namespace hygon_backend {

// A place in the 16 x 16 result tile; -1 where the probe could not tell.
struct FragmentPlace {
  int row = -1;
  int column = -1;
};

struct FragmentReport {
  bool matches = false;
  // Names: "MFMA", "MMAC layout 1", "MMAC layout 2", "mma.sync", "lanes without a matrix unit", "unknown".
  std::string assumed;
  std::string recovered;
  // One sentence for the user.
  std::string message;
  int wave_width = 0;
  // What each lane's result elements hold, lane by lane.
  std::vector<FragmentPlace> places;
};

// Multiplies unique-valued tiles of half or bfloat16 on the current device and waits for the results.
// Throws std::invalid_argument for other types, std::runtime_error when the runtime fails.
FragmentReport ProbeFragments(ElementType type);

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_FRAGMENT_PROBE_H_
