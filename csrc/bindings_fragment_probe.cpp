// Python's view of the fragment probe.
#include "hygon_build_info.h"

#if HYGON_HAS_DEVICE_KERNELS

#include <utility>

#include "bindings_kernels.h"
#include "kernels/fragment_probe.h"

namespace py = pybind11;

namespace hygon_backend {
namespace {

py::dict Probe(int element_type) {
  FragmentReport report;
  {
    const py::gil_scoped_release release;
    report = ProbeFragments(static_cast<ElementType>(element_type));
  }
  py::list places;
  for (const FragmentPlace& place : report.places) places.append(py::make_tuple(place.row, place.column));
  py::dict result;
  result["matches"] = report.matches;
  result["assumed"] = std::move(report.assumed);
  result["recovered"] = std::move(report.recovered);
  result["message"] = std::move(report.message);
  result["wave_width"] = report.wave_width;
  result["places"] = std::move(places);
  return result;
}

}  // namespace

void BindFragmentProbe(py::module_& module) {
  module.def("probe_fragments", &Probe, py::arg("element_type"),
             "How the current device's matrix unit holds results of an element type (its number in "
             "kernels/detail/element_type.h), and whether the kernels assume so.");
}

}  // namespace hygon_backend

#endif  // HYGON_HAS_DEVICE_KERNELS
